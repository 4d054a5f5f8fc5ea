-- Jobs whose lease is over and that nobody has swept; and the last sweep.
-- Takes    $1 how far to count.
-- Index    idx_inbox_stale_processing.
select (select count(*) from (
            select from holdfast.inbox i
            where i.status = 'processing' and i.lease_expires_at < holdfast.clock()
            limit $1::int
        ) e) as jobs,
       extract(epoch from holdfast.clock() - (
           select i.lease_expires_at from holdfast.inbox i
           where i.status = 'processing' and i.lease_expires_at < holdfast.clock()
           order by i.lease_expires_at
           limit 1))::float8 as oldest,
       extract(epoch from holdfast.clock() - c.ran_at)::float8 as swept, c.result ->> 'error' as error
from (select) one
left join holdfast.chores c on c.name = 'sweep'
