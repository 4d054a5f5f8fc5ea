-- Ask workers to drain. Their keepers see it in the answer to their next heartbeat.
-- Takes    $1 workers, $2 who does it.
-- Returns  those that were alive. One that drains already, or is dead, is left as it is.
with asked as (
    update holdfast.workers w
    set status = 'draining', metadata = coalesce(w.metadata, '{}') || '{"drained": true}'
    where w.id = any ($1)
      and w.status = 'alive'
    returning w.id
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'worker.told_to_drain', a.id, $2::text from asked a
)
select a.id, (select pg_notify(holdfast.channel(), '!'))       -- listeners are notified at once
from asked a
