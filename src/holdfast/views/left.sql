-- Which of these jobs no longer wait or run: they have ended, are dead letters, or do not exist.
-- Takes    $1 ids.
-- Returns  id.
-- Index    the primary key alone (see complete.sql).
select w.id
from pg_catalog.unnest($1::uuid[]) as w (id)
left join holdfast.inbox i on i.id = any (array[w.id])
where i.id is null or i.status::text not in ('pending', 'processing', 'blocked')
