-- Wake workers that sleep: work may wait in these queues for which no worker was woken.
-- Takes    $1 queues.
-- Returns  for each queue, whether a wake-up is sent.
select holdfast.wake(q.name) from pg_catalog.unnest($1::text[]) as q (name)
