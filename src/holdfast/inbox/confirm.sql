-- After a write whose answer was lost: which of these rows have ended under this hold.
-- Takes    $1 ids, $2 generations, $3 worker.
-- Returns  the ids that are in the archive under this hold.
-- Index    idx_archive_id.
select a.id
from unnest($1::uuid[], $2::bigint[]) as c (id, generation)
join holdfast.archive a on a.id = any (array[c.id])
where a.claimed_by = $3
  and a.lease_generation = c.generation
