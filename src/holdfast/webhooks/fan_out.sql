-- Turn deliveries of the route into one delivery for each endpoint that wants the event, and complete them.
-- Takes    $1 ids in ascending order, $2 generations, $3 worker, $4 attempts of the new deliveries.
-- Returns  one row: ids of the rows completed, how many deliveries were made, how many rows were completed after their lease
--          had expired, and ids of rows whose event is gone: these are left as they are. An id that is in neither was lost.
-- Locks    the rows, in order of id; then the endpoints, shared, in order of id: while the queue of a delivery is chosen by
--          the status of its endpoint, nobody changes it (see holdfast.change_endpoint). Locked, an endpoint is read as it is
--          now, not as it was when this statement began.
-- Index    the primary keys; of events, that of the day's partition.
-- The locks draw the xid before the clock is read: the claim floor needs it (see inbox/enqueue.sql). A delivery has always the
-- same id, so whatever fans out twice adds nothing. Keys are those of one endpoint: a failing one must not hold up another.
-- The lag of a delivery counts from the publish call, or that of the replay: it is created when the row of the route was.
with held as materialized (
    select i.id, i.seq, (i.payload ->> 'event'::text)::uuid as event, i.payload ->> 'on'::text as "on",
           coalesce((i.payload ->> 'replay'::text)::int, 0) as replay, i.payload,
           i.created_at, i.lease_expires_at
    from unnest($1::uuid[], $2::bigint[]) as h (id, generation)
    join holdfast.inbox i on i.id = any (array[h.id])
    where i.claimed_by = $3
      and i.lease_generation = h.generation
      and i.status::text = 'processing'
    order by h.id
    for update of i
),
event as materialized (
    select h.id, h.seq, h.event, h.replay, h.payload, h.created_at, h.lease_expires_at, e.type, e.key, e.tenant
    from held h
    cross join lateral (
        select e.type, e.key, e.tenant
        from holdfast.events e
        where e.id = h.event
          and e.published_at >= h."on"::date::timestamp at time zone 'UTC'
          and e.published_at < (h."on"::date + 1)::timestamp at time zone 'UTC'
        limit 1
    ) e
),
endpoint as materialized (
    select p.id, p.tenant, p.types, p.status, p.ordered
    from holdfast.endpoints p
    where p.status <> 'disabled'
      and exists (select from event e where p.tenant in ('*', e.tenant) or p.tenant is null and e.tenant is null)
    order by p.id
    for share of p
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version, ordered,
        skips, owned, created_at)
    select d.id, k.key, holdfast.bucket(k.key), '@deliver', e.payload || pg_catalog.jsonb_build_object('endpoint', p.id),
           case p.status when 'active' then 'out.webhooks.endpoints' else 'hold.' || p.id::text end,
           1, clock_timestamp(), $4::int, 1, p.ordered and e.key is not null, false, false, e.created_at
    from event e
    join endpoint p
      on (p.tenant in ('*', e.tenant) or p.tenant is null and e.tenant is null) and holdfast.endpoint_wants(e.type, p.types)
    cross join lateral holdfast.delivery_id(e.event, p.id::text, e.replay) as d (id)
    cross join lateral (
        select case when p.ordered and e.key is not null then holdfast.endpoint_key(p.id, e.key) else d.id::text end as key
    ) as k
    where pg_current_xact_id() is not null
    order by e.seq, p.id
    on conflict do nothing
    returning queue, payload ->> 'event'::text as event, coalesce((payload ->> 'replay'::text)::int, 0) as replay
),
ended as (
    delete from holdfast.inbox i
    using event e
    where i.id = any (array[e.id])
    returning i.*
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at)
    select {{archived_columns}}, 'completed'::holdfast.inbox_status, cancel_requested_at, last_error,
           pg_catalog.jsonb_build_object('deliveries', (
               select count(*) from made m
               where m.event = ended.payload ->> 'event'::text and m.replay = coalesce((ended.payload ->> 'replay'::text)::int, 0))),
           holdfast.clock()
    from ended
)
select array(select e.id from ended e) as done,
       (select count(*) from made) as deliveries,
       (select count(*) from ended e where e.lease_expires_at < holdfast.clock()) as late,
       array(select h.id from held h where h.id not in (select e.id from event e)) as missing,
       (select holdfast.wake('out.webhooks.endpoints', null, null, count(*)::int)
        from made m
        where m.queue = 'out.webhooks.endpoints'
        having count(*) > 0) as woken
