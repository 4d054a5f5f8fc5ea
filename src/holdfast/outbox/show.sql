-- One event.
-- Takes    $1 id.
select e.id, e.source, e.type, e.version, e.key, e.tenant, e.published_at, e.headers, e.data
from holdfast.events e
where e.id = $1
order by e.published_at
limit 1
