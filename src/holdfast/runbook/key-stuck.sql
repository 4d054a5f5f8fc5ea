-- An ordered key does not move: what holds it?
-- holdfast job explain HELD_BY says what to do.
select k.queue, k.key, k.waiting, now() - k.oldest as age, h.id as held_by, h.status, h.kind, h.attempts, h.max_attempts,
       h.claimed_by, h.since, h.lease_expires_at, h.last_error
from (
    select queue, partition_key as key, count(*) as waiting, min(created_at) as oldest
    from holdfast.inbox
    where ordered and status in ('pending', 'blocked')
    group by queue, partition_key
    order by min(created_at)
    limit 20
) k
cross join lateral (
    select *
    from (
        select p.id, p.seq, p.status, p.kind, p.attempts, p.max_attempts, p.claimed_by, p.claimed_at as since, p.lease_expires_at, p.last_error
        from holdfast.inbox p
        where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
        union all
        (
            select i.id, i.seq, i.status, i.kind, i.attempts, i.max_attempts, i.claimed_by, i.available_at, i.lease_expires_at, i.last_error
            from holdfast.inbox i
            where i.ordered and i.status in ('pending', 'blocked') and i.queue = k.queue and i.partition_key = k.key
              and not (i.skips and i.status = 'pending' and i.available_at > now())
            order by i.seq
            limit 1
        )
    ) f
    order by f.status = 'processing' desc
    limit 1
) h
order by age desc
