-- Make the deliveries that an endpoint did not get because it was disabled: of events that the route takes.
-- Takes    $1 endpoint, $2 events published since, $3 attempts of the new deliveries, $4 who does it.
-- Returns  how many.
-- Locks    the endpoint, shared (see fan_out.sql).
-- Index    idx_archive_id and the primary key of the inbox, per event; events are read from $2 on.
with endpoint as materialized (
    select p.id, p.tenant, p.types, p.status, p.ordered, p.created_at
    from holdfast.endpoints p
    where p.id = $1
    for share
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version, ordered,
        skips, owned)
    select d.id, k.key, holdfast.bucket(k.key), '@deliver',
           pg_catalog.jsonb_build_object(
               'type', '@deliver', 'event', e.id, 'on', pg_catalog.to_char(e.published_at at time zone 'UTC', 'YYYY-MM-DD'),
               'endpoint', p.id),
           case p.status when 'active' then 'out.webhooks.endpoints' else 'hold.' || p.id::text end,
           1, clock_timestamp(), $3::int, 1, p.ordered and e.key is not null, false, false
    from endpoint p
    join holdfast.events e
      on e.published_at >= greatest($2::timestamptz, p.created_at)
     and (p.tenant in ('*', e.tenant) or p.tenant is null and e.tenant is null)
     and holdfast.endpoint_wants(e.type, p.types)
    cross join lateral holdfast.delivery_id(e.id, p.id::text, 0) as d (id)
    cross join lateral (
        select case when p.ordered and e.key is not null then holdfast.endpoint_key(p.id, e.key) else d.id::text end as key
    ) as k
    join holdfast.routes r on r.name = 'webhooks' and holdfast.matches(e.type, r.types)
    left join lateral (select true as it from holdfast.archive a where a.id = d.id limit 1) as ended on true
    -- Not left to "on conflict" alone: a delivery that has ended since this statement began is no longer there.
    left join lateral (select true as it from holdfast.inbox w where w.id = any (array[d.id]) limit 1) as live on true
    where pg_current_xact_id() is not null and ended.it is null and live.it is null
    order by e.seq
    on conflict do nothing
    returning queue
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, count, details)
    select holdfast.clock(), 'endpoint.recovered', $1::uuid::text, $4::text, count(*), '{"of": "missed events"}'
    from made
    having count(*) > 0
)
select count(*) as made, case when count(*) > 0 then holdfast.wake(min(m.queue), null, null, count(*)::int) end as woken
from made m
