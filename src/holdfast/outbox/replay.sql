-- Deliver events once more along a route: the next batch of those that it would get now.
-- Takes    $1 route, $2 number of the replay, $3 published since and $4 before, $5 types or null, $6 one event or null,
--          $7 seq of the last event of the batch before, $8 batch, $9 only count?, $10 who does it.
-- Returns  how many, and the seq of the last one; null: nothing is left.
-- Index    the partitions of these days are read.
-- The condition draws the xid before the clock is read: the claim floor needs it (see inbox/enqueue.sql).
with chosen as materialized (
    select e.id, e.seq, e.key, e.published_at, r.name, r.queue, r.ordered, r.skips, r.max_attempts
    from holdfast.routes r
    join holdfast.events e
      on e.published_at >= $3::timestamptz and e.published_at < $4::timestamptz
     and e.seq > $7::bigint
     and ($6::uuid is null or e.id = $6::uuid)
     and holdfast.matches(e.type, coalesce($5::text[], r.types))
    where r.name = $1
    order by e.seq
    limit $8::int
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version, ordered,
        skips, owned)
    select d.id, coalesce(c.key, d.id::text), holdfast.bucket(coalesce(c.key, d.id::text)), '@deliver',
           pg_catalog.jsonb_build_object(
               'type', '@deliver', 'event', c.id, 'on', pg_catalog.to_char(c.published_at at time zone 'UTC', 'YYYY-MM-DD'),
               'replay', $2::int),
           c.queue, 1, clock_timestamp(), c.max_attempts, 1, c.ordered and c.key is not null, c.skips, false
    from chosen c
    cross join lateral holdfast.delivery_id(c.id, c.name, $2::int) as d (id)
    where pg_current_xact_id() is not null and not $9::boolean
    order by c.seq
    on conflict do nothing
    returning queue
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, count, details)
    select holdfast.clock(), 'events.replayed', $1, $10::text, count(*), pg_catalog.jsonb_build_object('replay', $2::int)
    from made
    having count(*) > 0
)
select (select count(*) from chosen) as events, (select max(c.seq) from chosen c) as last,
       (select holdfast.wake(min(m.queue), null, null, count(*)::int) from made m having count(*) > 0) as woken
