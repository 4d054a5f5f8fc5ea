-- End jobs that instances wait for: see schema/functions/end_children.sql.
-- Takes    $1 worker, $2 ids in ascending order, $3 generations, $4 results, $5 statuses (null: completed), $6 reasons, $7 keep;
--          of workflows $8 steps that are not written yet, $9 may steps be stored?
-- Returns  id, outcome, late.
-- Locks    the parents' rows, skipping locked ones; then the rows, in order of id.
-- Index    primary keys, idx_steps_child.
select e.id, e.outcome, e.late
from holdfast.end_children(
    $1::text, $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[], $9::boolean[]) e
