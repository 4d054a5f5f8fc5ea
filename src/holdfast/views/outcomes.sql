-- How these jobs ended, or that they have not: from the inbox and the archive as of one moment.
-- Takes    $1 ids.
-- Returns  id, status, attempts, result, last_error, failure (the record of the last failed attempt). An id that does not come
--          back is in neither.
-- Index    primary key of inbox, idx_archive_id.
select j.id, j.status::text as status, j.attempts, j.result, j.last_error, j.errors -> -1 as failure
from holdfast.jobs j
where j.id = any ($1::uuid[])
