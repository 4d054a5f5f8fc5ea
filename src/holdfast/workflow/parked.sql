-- After a park whose answer was lost: which of these instances were parked under this hold, or wait to be run again.
-- Takes    $1 ids, $2 generations.
-- Returns  the ids.
-- Locks    nothing.
-- Index    primary keys, once per id.
select h.id
from unnest($1::uuid[], $2::bigint[]) as h (id, generation)
left join lateral (
    select s.parked_generation from holdfast.instances s where s.job_id = any (array[h.id]) limit 1
) s on true
left join lateral (
    select i.lease_generation, i.status from holdfast.inbox i where i.id = any (array[h.id]) limit 1
) i on true
where s.parked_generation = h.generation
   or i.status::text = 'pending' and i.lease_generation = h.generation
