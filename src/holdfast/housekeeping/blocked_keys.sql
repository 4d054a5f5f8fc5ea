-- The next keys with blocked rows, in order, and whether their head is blocked while nothing of the key is in processing.
-- Takes    $1, $2 the last key seen (queue, key), $3 how many.
-- Returns  queue, key, stuck.
-- Index    idx_inbox_blocked, one lookup per key, however many rows it has; idx_inbox_key, and the one on processing keys.
with recursive key as (
    (
        select b.queue, b.partition_key, 1 as n
        from holdfast.inbox b
        where b.status = 'blocked' and (b.queue, b.partition_key) > ($1::text, $2::text)
        order by b.queue, b.partition_key
        limit 1
    )
    union all
    select next.queue, next.partition_key, k.n + 1
    from key k
    cross join lateral (
        select b.queue, b.partition_key
        from holdfast.inbox b
        where b.status = 'blocked' and (b.queue, b.partition_key) > (k.queue, k.partition_key)
        order by b.queue, b.partition_key
        limit 1
    ) next
    where k.n < $3
)
select k.queue, k.partition_key as key,
       at_work.it is null
       and coalesce((
           select i.status::text = 'blocked'
           from holdfast.inbox i
           where i.ordered and i.status in ('pending', 'blocked')
             and i.queue = k.queue
             and i.partition_key = k.partition_key
             and not (i.skips and i.status::text = 'pending' and i.available_at > holdfast.clock())
           order by i.seq
           limit 1), false) as stuck
from key k
-- Not "exists": planned while the table is small, it reads the whole index, and a session keeps that plan.
left join lateral (
    select true as it
    from holdfast.inbox p
    where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.partition_key
    limit 1
) at_work on true
