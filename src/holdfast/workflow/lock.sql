-- Lock an instance, in the transaction of a step that has found its row locked.
-- Takes    $1 id.
-- Returns  nothing.
-- Locks    the row; waits for the transaction that holds it, so that the server sees a deadlock with it, and ends one of them.
-- Index    the primary key alone.
select from holdfast.inbox i where i.id = any (array[$1::uuid]) for no key update
