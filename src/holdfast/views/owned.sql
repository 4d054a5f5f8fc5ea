-- The queues whose buckets are owned.
-- Index    none: a row per queue that somebody paused or configured.
select q.name
from holdfast.queues q
where q.owned
order by q.name
