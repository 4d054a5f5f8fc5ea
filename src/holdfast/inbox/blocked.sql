-- Are there blocked rows, of any key?
-- Takes    $1 queues.
-- Returns  one row, if so.
-- Index    idx_inbox_blocked, at its first entry of each queue.
select true as blocked
from pg_catalog.unnest($1::text[]) as q (name)
cross join lateral (
    select i.id
    from holdfast.inbox i
    where i.status = 'blocked' and i.queue = q.name
    order by i.partition_key, i.seq
    limit 1
) b
limit 1
