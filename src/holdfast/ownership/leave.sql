-- A worker says what becomes of it: draining, or dead when it has left.
-- Takes    $1 worker, $2 status.
update holdfast.workers w
set status = $2, last_seen_at = holdfast.clock(), metadata = coalesce(w.metadata, '{}') || '{"drained": true}'
where w.id = $1
