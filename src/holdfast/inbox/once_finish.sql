-- Finish a once() block: its effect has happened, and is not made again.
-- Takes    $1 key, $2 fence of this attempt.
-- Returns  the key; nothing if a newer attempt has entered since then.
-- Locks    the marker.
-- Index    the primary key.
update holdfast.once o
set done_at = holdfast.clock()
where o.key = $1
  and o.fence = $2
  and o.done_at is null
returning o.key
