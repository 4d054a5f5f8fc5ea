-- Which of these jobs no longer wait or run: they have ended, are dead letters, or do not exist.
-- Takes    $1 ids.
-- Returns  id.
-- Locks    nothing.
-- Index    the primary key alone.
select w.id
from pg_catalog.unnest($1::uuid[]) as w (id)
where coalesce((select i.status::text from holdfast.inbox i where i.id = w.id), '') not in ('pending', 'processing', 'blocked')
