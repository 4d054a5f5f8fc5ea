-- Note which endpoints have begun to fail, and which have taken a delivery again. Only changes are written.
-- Takes    $1 ids of those that failed, $2 of those that took one.
-- Returns  the ids that changed.
-- Locks    the endpoints that change, in order of id.
with changed as materialized (
    select e.id
    from holdfast.endpoints e
    where e.id = any ($1::uuid[]) and e.failing_since is null and e.status = 'active'
       or e.id = any ($2::uuid[]) and e.failing_since is not null
    order by e.id
    for update
)
update holdfast.endpoints e
set failing_since = case when e.id = any ($2::uuid[]) then null else holdfast.clock() end
from changed c
where e.id = c.id
returning e.id
