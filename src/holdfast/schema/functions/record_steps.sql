-- Write steps of instances that a worker holds, start their children, and mark the signals that they take.
--
-- The guard locks the row. If it only read it, a worker that has lost its lease could write steps after the new owner has
-- loaded them. Steps alone are one statement, for speed: an upsert sees what was committed before the lock, even if its
-- snapshot is older. Children and signals are rare, and have statements of their own, under the lock: a child is started
-- only with the first record of its step, so that a retried record does not start it again after it has ended. An instance
-- that was cancelled starts none.
--
-- Of an instance, all is written or nothing. A row that is locked may be free when the next record of its instance asks for
-- it; without the first of its steps, the instance could not be replayed.
--
-- Takes    the worker; the records, as a JSON array with an object for each: the hold ("id", "generation"), and the fields of
--          StepRecord in model/flow.py. Without a name, the hold is checked, and nothing is written. No step twice.
--          "starts": does any of them start a child; "takes": does any take a signal?
-- Returns  one row: which instances are locked or lost, and of the others, which were cancelled and which are paused; null:
--          none.
-- Locks    the inbox rows, skipping locked ones; never waits for them.
-- Index    primary keys alone (see complete.sql).
create or replace function holdfast.record_steps(worker text, records json, starts boolean, takes boolean)
    returns table (lost uuid[], cancelled uuid[], paused uuid[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    ours  uuid[];                      -- those that are held now, if it was asked: others may be free a moment later
    alive uuid[];                      -- of these, those that were not cancelled
    tries int;
begin
    if starts or takes then
        select coalesce(array_agg(i.id), '{}'), array_agg(i.id) filter (where i.alive) into ours, alive
        from (select distinct r.id, r.generation from json_to_recordset(records) as r (id uuid, generation bigint)) h
        cross join lateral (
            select i.id, i.cancel_requested_at is null as alive
            from holdfast.inbox i
            where i.id = any (array[h.id])
              and i.claimed_by = worker
              and i.lease_generation = h.generation
              and i.status::text = 'processing'
            for no key update skip locked
        ) i;
    end if;

    if starts then
        with made as (
            insert into holdfast.inbox (
                id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts,
                payload_version, headers, ordered, skips, owned, expires_at)
            select c.id, coalesce(c.key, c.id::text), holdfast.bucket(coalesce(c.key, c.id::text)), c.kind,
                   c.payload::jsonb, c.queue, c.priority, clock_timestamp(), c.max_attempts, c.version,
                   coalesce(c.headers, '{}') || jsonb_build_object('holdfast.parent', r.id),
                   coalesce(c.ordered, q.ordered, false) and not holdfast.in_turn_of(r.id, c.queue, c.key),
                   coalesce(c.skips, q.skips, false), coalesce(q.owned, false),
                   clock_timestamp() + make_interval(secs => c.expires)
            from rows from (json_to_recordset(records) as (id uuid, name text, n int, child json))
                 with ordinality as r (id, name, n, child, place)
            cross join lateral json_to_record(r.child)
                as c (id uuid, kind text, payload text, queue text, priority int, max_attempts int, version int, key text,
                      ordered boolean, skips boolean, expires float8, headers jsonb)
            left join lateral (
                select true as it
                from holdfast.steps s
                where s.job_id = any (array[r.id]) and s.name = any (array[r.name]) and s.n = any (array[r.n])
                limit 1
            ) known on true
            left join lateral (
                select q.ordered, q.skips, q.owned from holdfast.queues q where q.name = c.queue
            ) q on true
            where r.child is not null and r.id = any (alive) and known.it is null
            order by r.place
            on conflict (id) do nothing
            returning queue
        )
        select count(holdfast.wake(m.queue, null, null, m.jobs)) into tries
        from (select m.queue, count(*)::int as jobs from made m group by m.queue) m;
    end if;

    if takes then
        update holdfast.signals g
        set taken_by = r.name || case when r.n > 0 then '#' || r.n::text else '' end
        from json_to_recordset(records) as r (id uuid, name text, n int, signal bigint)
        where g.job_id = any (array[r.id]) and g.n = r.signal and r.id = any (ours);
    end if;

    with held as materialized (
        select r.*, i.stopped, i.tries
        from json_to_recordset(records)
             as r (id uuid, generation bigint, name text, n int, ordinal int, kind text, status text, result text, error text,
                   attempts int, digest bigint, took float8, delay float8, at timestamptz, ago float8, child json)
        left join lateral (
            select i.cancel_requested_at is not null as stopped, i.attempts as tries
            from holdfast.inbox i
            where i.id = any (array[r.id])
              and i.claimed_by = worker
              and i.lease_generation = r.generation
              and i.status::text = 'processing'
              and (ours is null or r.id = any (ours))
            for no key update skip locked
        ) i on true
    ),
    passed as materialized (           -- as a whole: null, nearly always
        select array_agg(h.id) as ids from held h where h.stopped is null
    ),
    written as (
        insert into holdfast.steps as s (
            job_id, name, n, ordinal, kind, status, result, errors, attempts, digest, wake_at, child_id, generation,
            started_at, ended_at)
        select r.id, r.name, r.n, r.ordinal, r.kind, r.status, r.result::json,
               case when r.error is not null
                    then jsonb_build_array(
                             r.error::jsonb || jsonb_build_object(
                                 'attempt', coalesce(r.attempts, 0),
                                 'at', holdfast.clock() - make_interval(secs => coalesce(r.ago, 0))))
                    end,
               coalesce(r.attempts, 0), r.digest,
               case when r.delay is not null
                    then holdfast.clock() + make_interval(secs => least(r.delay, 3155760000)) - holdfast.elapsed(r.ago)
                    else r.at end,
               (r.child ->> 'id')::uuid, r.generation,
               holdfast.clock() - make_interval(secs => coalesce(r.took, 0) + coalesce(r.ago, 0)),
               case when r.status <> 'open' then holdfast.clock() - make_interval(secs => coalesce(r.ago, 0)) end
        from held r
        where r.stopped is not null and r.name is not null and not (r.child is not null and r.stopped)
          and ((select p.ids from passed p) is null or r.id <> all ((select p.ids from passed p)::uuid[]))
        on conflict (job_id, name, n) do update
        set status = excluded.status, result = excluded.result, attempts = excluded.attempts,
            generation = excluded.generation, digest = coalesce(excluded.digest, s.digest),
            wake_at = coalesce(excluded.wake_at, s.wake_at), ended_at = excluded.ended_at,
            -- The last ten. A retried record, whose answer was lost, has the same generation and number of attempts.
            errors = case when excluded.errors is null
                               or excluded.generation = s.generation and excluded.attempts <= s.attempts
                          then coalesce(s.errors, excluded.errors)
                          when jsonb_array_length(s.errors) >= 10 then (s.errors - 0) || excluded.errors
                          else coalesce(s.errors, '[]') || excluded.errors end
        -- What has ended stays: a child may have ended while the record of its start is retried.
        where s.status = 'open'
          -- A record that is retried does not begin its timer again.
          and (excluded.status <> 'open' or excluded.generation <> s.generation or excluded.attempts <> s.attempts
               or excluded.wake_at is null or s.wake_at is null)
    )
    select (select p.ids from passed p), array_agg(h.id) filter (where h.stopped),
           array_agg(h.id) filter (where s.it), max(h.tries)
    into lost, cancelled, paused, tries
    from held h
    left join lateral (
        select true as it from holdfast.instances s where s.job_id = any (array[h.id]) and s.paused_at is not null limit 1
    ) s on true;

    if tries > 1 then                  -- it makes progress: what counts are claims without a record in between
        update holdfast.inbox i
        set attempts = 1
        from json_to_recordset(records) as h (id uuid)
        where i.id = any (array[h.id]) and i.attempts > 1 and (lost is null or h.id <> all (lost));
    end if;
    return next;
end
$$;
