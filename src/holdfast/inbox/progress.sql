-- Store how far attempts are, under their holds.
-- Takes    $1 ids, $2 generations, $3 progress (JSON text), $4 worker.
-- Returns  the ids written. A row that does not come back is lost, or locked right now.
-- Locks    the rows, in order of id, skipping locked ones: progress must not delay an ending or a renewal.
-- Index    the primary key alone (see complete.sql).
with held as materialized (
    select i.id, p.progress
    from unnest($1::uuid[], $2::bigint[], $3::text[]) as p (id, generation, progress)
    join holdfast.inbox i on i.id = any (array[p.id])
    where i.claimed_by = $4
      and i.lease_generation = p.generation
      and i.status::text = 'processing'
    order by p.id
    for update of i skip locked
)
update holdfast.inbox i
set progress = held.progress::jsonb || pg_catalog.jsonb_build_object('at'::text, holdfast.stamp(holdfast.clock()))
from held
where i.id = any (array[held.id])
returning i.id
