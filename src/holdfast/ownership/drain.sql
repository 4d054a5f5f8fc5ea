-- Ask workers to drain. Their keepers see it in the answer to their next heartbeat.
-- Takes    $1 workers.
-- Returns  those that were alive. One that drains already, or is dead, is left as it is.
update holdfast.workers w
set status = 'draining', metadata = coalesce(w.metadata, '{}') || '{"drained": true}'
where w.id = any ($1)
  and w.status = 'alive'
returning w.id, (select pg_notify(holdfast.channel(), '!'))       -- listeners are notified at once
