-- The workers that are live on each of these queues: alive, and seen within 30 seconds by the database's clock.
-- Takes    $1 queues.
-- Returns  each queue with its workers.
-- Index    none: it reads the registry, a few hundred small rows at most, once per refresh and worker.
select q.name, array(
    select w.id
    from holdfast.workers w
    where w.status = 'alive'
      and w.last_seen_at > holdfast.clock() - interval '30 seconds'
      and w.metadata -> 'queues'::text ? q.name
)
from pg_catalog.unnest($1::text[]) as q (name)
