-- A route does not deliver
-- No workers: start one with this route. Paused: resume. Waiting and nothing retrying: the destination is away.
select r.name, r.destination, w.workers, q.paused_at, r.removed_at, d.waiting, d.retrying, d.dead_letters, d.oldest, d.sample_error
from holdfast.routes r
left join holdfast.queues q on q.name = r.queue
cross join lateral (
    select count(*) as workers
    from holdfast.workers w
    where w.status = 'alive' and w.last_seen_at > now() - interval '30 seconds' and w.metadata -> 'queues' ? r.queue
) w
cross join lateral (
    select count(*) filter (where i.status <> 'dead_letter') as waiting,
           count(*) filter (where i.status = 'pending' and i.attempts > 0) as retrying,
           count(*) filter (where i.status = 'dead_letter') as dead_letters,
           now() - min(i.created_at) filter (where i.status <> 'dead_letter') as oldest,
           max(i.last_error) as sample_error
    from holdfast.inbox i
    where i.kind = '@deliver' and (i.queue = r.queue or starts_with(i.queue, r.queue || '.'))
) d
order by d.oldest desc nulls last
