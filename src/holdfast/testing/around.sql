-- What else is there, for the message of a failed assertion: all live jobs, and the ended ones of a kind.
-- Takes    $1 kind.
-- Returns  kind, status, and how many.
select f.kind, f.status, f.jobs
from (
    select i.kind, i.status::text as status, count(*)::int as jobs
    from holdfast.inbox i
    group by i.kind, i.status
    union all
    select a.kind, a.status::text, count(*)::int
    from holdfast.archive a
    where a.kind = $1::text
    group by a.kind, a.status
) as f
order by f.kind, f.status
