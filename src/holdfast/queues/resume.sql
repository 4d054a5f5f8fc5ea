-- Resume a queue.
-- Takes    $1 queue.
update holdfast.queues q
set paused_at = null
where q.name = $1
returning holdfast.wake(q.name)
