-- Which of these kinds keep no row of a completed job, as the workers that run them have declared.
-- Takes    $1 kinds.
-- Returns  kind.
-- Locks    nothing.
-- Index    any: the table has a row per task.
select k.kind
from holdfast.kinds k
where k.kind = any ($1::text[])
  and k.keep_days = 0
