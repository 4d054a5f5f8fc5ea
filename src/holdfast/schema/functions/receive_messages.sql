-- Store received messages, each as one job, however often it is delivered. The first delivery makes the job; the others,
-- also those in the same call, find it. A message of a known id and with another body is a duplicate, too: the first one
-- stands, and "differs" reports it. "numbers" says for each message which of the terms are its own; "headers" are the
-- jobs' own.
create or replace function holdfast.receive_messages(
    ids uuid[], keys text[], payloads jsonb[], headers jsonb[], idempotency_keys text[], numbers int[], terms holdfast.terms[]
) returns table (n int, job_id uuid, existed boolean, differs boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the tables are empty, it would read all of them
    set enable_hashjoin = off
    set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan       -- otherwise each call plans again: 0.5 ms
    as $$
#variable_conflict use_column
declare
    hashes bytea[];
    made   uuid[];
    place  record;
begin
    -- Of what the sender says, not of when and how it was sent.
    hashes := array(
        select sha256(convert_to(jsonb_build_array(t.kind, t.version, coalesce(u.payload #> '{event,data}', u.payload -> 'body'))::text, 'UTF8'))
        from unnest(payloads, numbers) with ordinality as u (payload, number, n)
        cross join lateral (select (terms[u.number]).kind, (terms[u.number]).version) as t
        order by u.n);

    -- In the order of the keys, whatever the order given: two callers in opposite orders deadlock.
    with reserved as (
        insert into holdfast.dedupe as d (key, job_id, kind, payload_hash, horizon)
        select g.key, ids[g.n], (terms[numbers[g.n]]).kind, hashes[g.n], holdfast.setting('message_horizon')::float8
        from (select distinct on (u.key collate "C") u.key, u.n::int as n
              from unnest(idempotency_keys) with ordinality as u (key, n)
              order by u.key collate "C", u.n) as g
        order by g.key collate "C"
        on conflict on constraint dedupe_pkey do nothing
        returning d.job_id
    )
    select array_agg(r.job_id) into made from reserved r;

    -- In the order given, which an ordered key keeps. Its xid was drawn above, before the clock is read here: the claim
    -- floor needs it. A conflict is a row that was written by hand under the same key: it stands for the message.
    if made is not null then
        insert into holdfast.inbox (
            id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, idempotency_key, max_attempts,
            payload_version, headers, ordered, skips, owned, expires_at)
        select j.id, coalesce(j.key, j.id::text), holdfast.bucket(coalesce(j.key, j.id::text)), t.kind, j.payload, t.queue,
               t.priority, clock_timestamp(), j.idempotency_key, t.max_attempts, t.version, j.headers,
               coalesce(t.ordered, q.ordered, false), coalesce(t.skips, q.skips, false), coalesce(q.owned, false),
               case when t.expires is not null then clock_timestamp() + make_interval(secs => t.expires) end
        from unnest(ids, keys, payloads, headers, idempotency_keys, numbers)
            with ordinality as j (id, key, payload, headers, idempotency_key, number, n)
        cross join lateral (select (terms[j.number]).*) as t
        left join holdfast.queues q on q.name = t.queue
        where j.id = any (made)
        order by j.n
        on conflict do nothing;
        for place in
            select t.queue, count(*)::int as jobs
            from unnest(ids, numbers) as j (id, number)
            cross join lateral (select (terms[j.number]).queue) as t
            where j.id = any (made)
            group by t.queue
        loop
            perform holdfast.wake(place.queue, null, null, place.jobs);
        end loop;
    end if;

    -- A statement of its own: only a fresh snapshot sees a duplicate that committed while we waited for it.
    return query
    select u.n::int, coalesce(d.job_id, ids[u.n]), d.job_id is distinct from ids[u.n],
           coalesce(d.job_id <> ids[u.n] and d.payload_hash <> hashes[u.n], false)
    from unnest(idempotency_keys) with ordinality as u (key, n)
    left join holdfast.dedupe d on d.key = any (array[u.key])
    order by u.n;
end
$$;
