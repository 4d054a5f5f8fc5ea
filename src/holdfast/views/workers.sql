-- All workers in the registry, latest heartbeat first.
select w.id, w.status, extract(epoch from holdfast.clock() - w.last_seen_at)::float8 as silent, w.started_at,
       extract(epoch from holdfast.clock() - w.started_at)::float8 as up,
       w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds' as live, w.metadata
from holdfast.workers w
order by w.last_seen_at desc
