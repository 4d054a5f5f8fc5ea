-- The progress of the drain: its jobs in four quarters, in the order in which they ended.
-- Returns  per quarter: the number of jobs, when the first was claimed, and when the last ended, in seconds.
select count(*)::int as jobs, extract(epoch from min(q.claimed_at))::float8 as began,
       extract(epoch from max(q.finished_at))::float8 as ended
from (
    select a.claimed_at, a.finished_at, ntile(4) over (order by a.finished_at, a.seq) as quarter
    from holdfast.archive a
    where a.kind = 'noop'
) q
group by q.quarter
order by q.quarter
