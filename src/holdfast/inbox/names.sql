-- The queues and kinds of live rows, for the supervisor of a process that died: its ledger has ids alone.
-- Takes    $1 ids.
-- Returns  id, queue, kind.
-- Locks    nothing.
-- Index    the primary key, once per id.
select i.id, i.queue, i.kind
from pg_catalog.unnest($1::uuid[]) as g (id)
join holdfast.inbox i on i.id = any (array[g.id])
