-- Which of these jobs have no row, neither live nor archived: they were never stored, or have completed with keep=None. (Or
-- they ended so long ago that the archive no longer has them.)
-- Takes    $1 ids.
-- Returns  id.
-- Locks    nothing.
-- Index    the primary key of the inbox, and idx_archive_id, once per id.
select g.id
from pg_catalog.unnest($1::uuid[]) as g (id)
where (select true from holdfast.inbox i where i.id = g.id) is null
  and (select true from holdfast.archive a where a.id = g.id limit 1) is null
