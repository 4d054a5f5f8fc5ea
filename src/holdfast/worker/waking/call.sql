-- Work may wait in these queues for which nobody was called: call whoever sleeps.
-- Takes    $1 queues.
-- Returns  whether somebody is called, for each.
select holdfast.wake(q.name) from pg_catalog.unnest($1::text[]) as q (name)
