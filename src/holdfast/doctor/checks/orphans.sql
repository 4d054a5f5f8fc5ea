-- Jobs that are held by workers which are gone, while their lease still runs.
-- Takes    $1 how many jobs in processing to look at.
-- Returns  per worker: jobs, and seconds until the last of their leases ends.
-- Index    idx_inbox_stale_processing.
select h.claimed_by as worker, count(*) as jobs, extract(epoch from max(h.lease_expires_at) - holdfast.clock())::float8 as left,
       extract(epoch from holdfast.clock() - max(w.last_seen_at))::float8 as silent
from (
    select i.claimed_by, i.lease_expires_at
    from holdfast.inbox i
    where i.status = 'processing' and i.lease_expires_at >= holdfast.clock()
    order by i.lease_expires_at
    limit $1::int
) h
left join holdfast.workers w on w.id = h.claimed_by
where w.id is null or w.status = 'dead' or w.last_seen_at <= holdfast.clock() - interval '30 seconds'
group by h.claimed_by
order by jobs desc
