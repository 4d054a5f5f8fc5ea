-- Write notes of a process. What happens often shares a row a minute: its count and the numbers of its details are added.
-- Takes    $1 notes, as JSON: what, subject, seconds ago, seconds since it was over, count, details, shared.
-- Locks    shared rows, in the order of the index; waits for others that write them.
-- Index    idx_journal_slot.
insert into holdfast.journal as j (at, until, what, subject, count, details, slot)
select t.at, holdfast.clock() - make_interval(secs => n.over), n.what, n.subject, n.count, n.details,
       case when n.shared then pg_catalog.date_trunc('minute', t.at) end
from pg_catalog.jsonb_to_recordset($1::text::jsonb)
     as n (what text, subject text, ago float8, over float8, count bigint, details jsonb, shared boolean)
cross join lateral (select holdfast.clock() - make_interval(secs => n.ago) as at) t
order by n.what collate "C", n.subject collate "C", t.at
on conflict (what, subject, slot) where slot is not null do update
    set count = j.count + excluded.count,
        until = greatest(j.until, j.at, excluded.until, excluded.at),
        details = holdfast.add_details(j.details, excluded.details)
