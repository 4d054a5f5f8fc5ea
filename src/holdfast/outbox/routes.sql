-- The routes.
select r.name, r.types, r.queue, r.ordered, r.skips, r.max_attempts, r.destination, r.created_at, r.seen_at, r.removed_at
from holdfast.routes r
order by r.name
