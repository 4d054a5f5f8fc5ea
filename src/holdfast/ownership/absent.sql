-- Mark workers as absent: they do not run now, and are not live until their next heartbeat.
-- Takes    $1 workers.
-- Returns  those that were live until now.
update holdfast.workers w
set last_seen_at = holdfast.clock() - interval '31 seconds'
where w.id = any ($1)
  and w.status = 'alive'
  and w.last_seen_at > holdfast.clock() - interval '30 seconds'
returning w.id
