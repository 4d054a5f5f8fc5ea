-- The queues whose buckets are owned.
-- Index    none: the table has one row per queue that was paused or configured.
select q.name
from holdfast.queues q
where q.owned
order by q.name
