-- End jobs that have expired while they wait: nobody claims them, because their queue is paused, they wait for their time,
-- their retry or their head, or no worker knows their kind.
-- Takes    $1 the expiry from which on to look, $2 batch.
-- Returns  as holdfast.expire_jobs.
-- Locks    the rows, skipping locked ones (a worker claims them, or a producer replaces them); never waits for a row.
-- Index    idx_inbox_expires.
with late as materialized (
    select i.id
    from holdfast.inbox i
    where i.expires_at is not null
      and i.status in ('pending', 'blocked')
      and i.expires_at >= $1
      and i.expires_at <= holdfast.clock()
    order by i.expires_at
    limit $2
    for update skip locked
)
select e.id, e.kind, e.queue, e.key, e.ordered, e.expires_at
from holdfast.expire_jobs(array(select l.id from late l order by l.id)) e
