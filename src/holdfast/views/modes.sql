-- The queues that were paused or configured, and since when they are paused.
-- Index    none: the table has one row per such queue.
select q.name, q.paused_at, q.ordered, q.skips, q.owned
from holdfast.queues q
order by q.name
