-- Deliver events once more to one endpoint: the next batch of those that it would get now.
-- Takes    $1 endpoint, $2 number of the replay, $3 published since and $4 before, $5 types or null, $6 one event or null,
--          $7 seq of the last event of the batch before, $8 batch, $9 only count?, $10 attempts of the new deliveries,
--          $11 who does it.
-- Returns  how many, and the seq of the last one; null: nothing is left.
-- Locks    the endpoint, shared (see fan_out.sql).
-- Index    the partitions of these days are read.
-- The condition draws the xid before the clock is read: the claim floor needs it (see inbox/enqueue.sql).
with endpoint as materialized (
    select p.id, p.tenant, p.types, p.status, p.ordered
    from holdfast.endpoints p
    where p.id = $1
    for share
),
chosen as materialized (
    select e.id, e.seq, e.key, e.published_at, p.id as endpoint, p.status, p.ordered
    from endpoint p
    join holdfast.events e
      on e.published_at >= $3::timestamptz and e.published_at < $4::timestamptz
     and e.seq > $7::bigint
     and ($6::uuid is null or e.id = $6::uuid)
     and (p.tenant in ('*', e.tenant) or p.tenant is null and e.tenant is null)
     and holdfast.endpoint_wants(e.type, p.types)
     and ($5::text[] is null or holdfast.matches(e.type, $5::text[]))
    join holdfast.routes r on r.name = 'webhooks' and holdfast.matches(e.type, r.types)
    order by e.seq
    limit $8::int
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version, ordered,
        skips, owned)
    select d.id, k.key, holdfast.bucket(k.key), '@deliver',
           pg_catalog.jsonb_build_object(
               'type', '@deliver', 'event', c.id, 'on', pg_catalog.to_char(c.published_at at time zone 'UTC', 'YYYY-MM-DD'),
               'replay', $2::int, 'endpoint', c.endpoint),
           case c.status when 'active' then 'out.webhooks.endpoints' else 'hold.' || c.endpoint::text end,
           1, clock_timestamp(), $10::int, 1, c.ordered and c.key is not null, false, false
    from chosen c
    cross join lateral holdfast.delivery_id(c.id, c.endpoint::text, $2::int) as d (id)
    cross join lateral (
        select case when c.ordered and c.key is not null then holdfast.endpoint_key(c.endpoint, c.key) else d.id::text end as key
    ) as k
    where pg_current_xact_id() is not null and not $9::boolean
    order by c.seq
    on conflict do nothing
    returning queue
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, count, details)
    select holdfast.clock(), 'endpoint.replayed', $1::uuid::text, $11::text, count(*),
           pg_catalog.jsonb_build_object('replay', $2::int)
    from made
    having count(*) > 0
)
select (select count(*) from chosen) as events, (select max(c.seq) from chosen c) as last,
       (select holdfast.wake(min(m.queue), null, null, count(*)::int) from made m having count(*) > 0) as woken
