-- Publish events: store each once, and a delivery for each route that it matches.
--
-- An id may have been used before: it is the caller's ("brought"), or this is a call that is retried when no answer comes
-- ("guarded"). Then its lock is taken before the events are searched, so of two calls with the same id, the second one finds
-- the event of the first. A brought id is remembered as long as its event is kept, a guarded one for a day.
--
-- Each event must fit into what a receiver takes (MOST_BODY in receiving/arrivals.py): twice payload_bytes, of which 8 KiB are
-- left to its attributes. The check of the caller is another one: of JSON without spaces, and before numbers such as 1e-300
-- are written out.
--
-- The xid is drawn before the clock is read: the claim floor needs it (see inbox/enqueue.sql).
-- Takes    per event: id, type, version, key, tenant, headers, data; of all: their source (null: as the settings say, or the
--          name of this database), brought, guarded, and the routes of the caller's code (see declare_routes), or null.
-- Returns  per event: its position, its id, whether it was there before, and how many deliveries were made; or the one conflict,
--          and then nothing was stored.
-- Locks    the ids, if brought or guarded, in their order.
create or replace function holdfast.publish_events(
    ids uuid[], types text[], versions int[], keys text[], tenants text[], headers jsonb[], bodies jsonb[], source text,
    brought boolean, guarded boolean, declared jsonb
) returns table (n int, event_id uuid, existed boolean, conflict text, deliveries int)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the events are few, the search for ids would read all of them
    set plan_cache_mode = force_generic_plan       -- otherwise each call plans again, for every partition
    as $$
#variable_conflict use_column
declare
    xid     constant xid8 := pg_current_xact_id();
    now     timestamptz;
    origin  text := coalesce(source, holdfast.setting('event_source') #>> '{}', current_database());
    known   uuid[] := '{}';
    since   timestamptz := case when brought then '-infinity' else clock_timestamp() - interval '1 day' end;
    to_wake record;
    size    constant int := (select max(octet_length(u.data::text) + coalesce(octet_length(u.headers::text), 0))
                             from unnest(bodies, headers) as u (data, headers));
begin
    if size > 2 * 1048576 - 8192 and size > 2 * (holdfast.setting('payload_bytes'))::int - 8192 then
        raise exception 'data: % bytes with the headers, as they are sent; the limit is %', size,
                        2 * greatest((holdfast.setting('payload_bytes'))::int, 1048576) - 8192
            using errcode = 'HF001', hint = 'Store the data elsewhere and publish a reference to it.';
    end if;
    if brought or guarded then
        perform pg_advisory_xact_lock(hashtextextended('holdfast.event ' || i.id::text, 0))
        from (select u.id from unnest(ids) as u (id) order by u.id) as i;
        select u.n::int, u.id, true,
               case when e.type <> u.type then format('type %s', e.type)
                    when e.data <> u.data then 'other data'
                    when e.key is distinct from u.key then format('key %s', e.key) end, 0
        into n, event_id, existed, conflict, deliveries
        from unnest(ids, types, bodies, keys) with ordinality as u (id, type, data, key, n)
        join holdfast.events e on e.id = u.id and e.published_at > since
        where e.type <> u.type or e.data <> u.data or e.key is distinct from u.key
        order by u.n
        limit 1;
        if found then
            return next;
            return;
        end if;
        known := array(select e.id from holdfast.events e where e.id = any (ids) and e.published_at > since);
    end if;
    if exists (select from jsonb_array_elements(declared) as d (route)
               where not exists (select from holdfast.routes r where r.name = d.route ->> 'name')) then
        perform holdfast.declare_routes(declared, false);
    end if;
    now := clock_timestamp();
    insert into holdfast.events (id, published_at, source, type, version, key, tenant, headers, data)
    select u.id, now, origin, u.type, u.version, u.key, u.tenant, u.headers, u.data
    from unnest(ids, types, versions, keys, tenants, headers, bodies) with ordinality
         as u (id, type, version, key, tenant, headers, data, n)
    where u.id <> all (known)
    order by u.n;
    for to_wake in
        with stored as (
            insert into holdfast.inbox (
                id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version,
                ordered, skips, owned)
            select d.id, coalesce(u.key, d.id::text), holdfast.bucket(coalesce(u.key, d.id::text)), '@deliver',
                   jsonb_build_object('type', '@deliver', 'event', u.id, 'on', to_char(now at time zone 'UTC', 'YYYY-MM-DD')),
                   r.queue, 1, now, r.max_attempts, 1, r.ordered and u.key is not null, r.skips, coalesce(q.owned, false)
            from unnest(ids, types, keys) with ordinality as u (id, type, key, n)
            join holdfast.routes r on r.removed_at is null and holdfast.matches(u.type, r.types)
            cross join lateral holdfast.delivery_id(u.id, r.name, 0) as d (id)
            left join holdfast.queues q on q.name = r.queue
            where u.id <> all (known)
            order by u.n
            returning queue
        )
        select s.queue, count(*)::int as jobs
        from stored s
        group by s.queue
    loop
        perform holdfast.wake(to_wake.queue, null, null, to_wake.jobs);
    end loop;
    return query
    select u.n::int, u.id, u.id = any (known), null::text,
           case when u.id = any (known) then 0
                else (select count(*)::int from holdfast.routes r
                      where r.removed_at is null and holdfast.matches(u.type, r.types)) end
    from unnest(ids, types) with ordinality as u (id, type, n)
    order by u.n;
end
$$;
