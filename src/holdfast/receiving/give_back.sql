-- Leave a consumer to others.
-- Takes    $1 name, $2 worker.
update holdfast.consumers c
set expires_at = holdfast.clock()
where c.name = $1 and c.holder = $2
