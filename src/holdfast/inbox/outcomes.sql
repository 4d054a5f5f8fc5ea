-- How these jobs ended, or that they have not: from the inbox and the archive as of one moment.
-- Takes    $1 ids.
-- Returns  id, status, attempts, result, last_error, failure (the record of the last failed attempt). An id that does not come
--          back is in neither.
-- Locks    nothing.
-- Index    the primary key of the inbox, and idx_archive_id, once per id.
select j.id, j.status::text as status, j.attempts, j.result, j.last_error, j.errors -> -1 as failure
from pg_catalog.unnest($1::uuid[]) as w (id)
cross join lateral (select * from holdfast.jobs v where v.id = any (array[w.id]) limit 1) j
