-- Let instances wait, without a worker: each becomes pending, to be claimed at its earliest timer, or when it is woken.
--
-- No wake-up is lost. The row in "instances" is locked first: a signal that comes later waits for this transaction, and
-- finds the parked row; one that came earlier has raised the mail, and the instance runs again at once. If a signal's
-- transaction is open, the row is locked, or the right to insert it: then the instance waits for a moment only, and nothing
-- is written about what it waits for. It is never left with its worker.
-- Takes    the worker; a JSON array with an object for each: the hold ("id", "generation"), the "mail" that it has seen, what
--          it "waits" for, its earliest new timer in seconds ("delay"), how many seconds "ago" that began, its earliest stored
--          one ("wake_at"), how many children must end ("left"); then what holdfast.record_steps takes; null: no records.
-- Returns  id and what became of it: parked; again (run again at once); busy (run again in a moment). Or missing: it is
--          locked or lost, and nothing at all was written; the caller retries without it.
-- Locks    instances, then the inbox rows, skipping locked ones; never waits for them.
-- Index    primary keys alone (see complete.sql).
create or replace function holdfast.park_instances(worker text, parks json, records json, starts boolean, takes boolean)
    returns table (id uuid, outcome text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    ids    uuid[];
    mails  bigint[];                   -- null: there is no row yet, or it is locked
    paused boolean[];
    states text[];                     -- of those without a mail: busy or new
    held   boolean[];
begin
    select array_agg(u.id), array_agg(s.mail), array_agg(s.paused) into ids, mails, paused
    from json_to_recordset(parks) as u (id uuid)
    left join lateral (
        select s.mail, s.paused_at is not null as paused
        from holdfast.instances s
        where s.job_id = any (array[u.id])
        for no key update skip locked
    ) s on true;

    if array_position(mails, null) is not null then
        select array_agg(case when u.mail is not null then null
                              when s.it then 'busy'
                              when pg_try_advisory_xact_lock(holdfast.instance_lock(u.id)) then 'new'
                              else 'busy' end)
        into states
        from unnest(ids, mails) as u (id, mail)
        left join lateral (
            select true as it from holdfast.instances s where u.mail is null and s.job_id = any (array[u.id]) limit 1
        ) s on true;
        -- Under the lock, in a statement of its own: one that was inserted meanwhile is committed, and has mail.
        select array_agg(case when u.state = 'new' and s.it then 'again' else u.state end)
        into states
        from unnest(ids, states) as u (id, state)
        left join lateral (
            select true as it from holdfast.instances s where u.state = 'new' and s.job_id = any (array[u.id]) limit 1
        ) s on true;
    end if;

    select array_agg(i.it) into held
    from json_to_recordset(parks) as h (id uuid, generation bigint)
    left join lateral (
        select true as it
        from holdfast.inbox i
        where i.id = any (array[h.id])
          and i.claimed_by = worker
          and i.lease_generation = h.generation
          and i.status::text = 'processing'
        for no key update skip locked
    ) i on true;
    if array_position(held, null) is not null then
        return query select h.id, 'missing'::text from unnest(ids, held) as h (id, it) where h.it is null;
        return;
    end if;

    if records is not null then
        perform from holdfast.record_steps(worker, records, starts, takes);
    end if;

    return query
    with wanted as materialized (
        select p.id, p.generation, p.waits, p."left" as left_to_wait,
               case when p.state = 'busy' then 'busy'
                    when p.state = 'again' or coalesce(p.mail, 0) <> p.seen then 'again'
                    -- It was cancelled after its worker had loaded it, and before it counted the mail.
                    when i.cancelled and undo.it is null then 'again'
                    else 'parked' end as outcome,
               coalesce(p.paused, false) as paused,
               least(case when p.delay is not null
                          then holdfast.clock() + make_interval(secs => least(p.delay, 3155760000)) - holdfast.elapsed(p.ago) end,
                     p.wake_at) as wake_at
        from rows from (
                 json_to_recordset(parks)
                     as (id uuid, generation bigint, mail bigint, waits text[], delay float8, ago float8, wake_at timestamptz,
                         "left" int),
                 unnest(mails), unnest(paused), unnest(states))
             as p (id, generation, seen, waits, delay, ago, wake_at, "left", mail, paused, state)
        cross join lateral (
            select i.cancel_requested_at is not null as cancelled from holdfast.inbox i where i.id = any (array[p.id]) limit 1
        ) i
        left join lateral (
            select true as it
            from holdfast.steps s
            where i.cancelled and s.job_id = any (array[p.id]) and s.name = 'undo:' and s.n = 0
            limit 1
        ) undo on true
    ),
    noted as (
        insert into holdfast.instances as s (job_id, parked_generation, waits, waits_since, wake_at, left_to_wait)
        select w.id, w.generation, w.waits, holdfast.clock(), w.wake_at, w.left_to_wait
        from wanted w
        where w.outcome = 'parked'
        on conflict (job_id) do update
        set parked_generation = excluded.parked_generation, waits = excluded.waits, waits_since = excluded.waits_since,
            wake_at = excluded.wake_at, left_to_wait = excluded.left_to_wait
    ),
    written as (
        update holdfast.inbox i
        set status = 'pending',
            available_at = case w.outcome
                               when 'again' then clock_timestamp()
                               when 'busy' then clock_timestamp()
                                                + make_interval(secs => least(0.1 * 2 ^ least(coalesce(i.snoozes, 0), 9), 1.0))
                               else case when w.paused or w.wake_at is null then clock_timestamp() + interval '36525 days'
                                         else greatest(w.wake_at, clock_timestamp()) end end,
            -- Of an instance: how often in a row it could not be parked.
            snoozes = case when w.outcome = 'busy' then coalesce(i.snoozes, 0) + 1 end,
            attempts = 0,
            crashes = 0,
            expires_at = null,             -- it has started in time
            claimed_by = null,
            claimed_at = null,
            lease_expires_at = null
        from wanted w
        where i.id = any (array[w.id])
        returning i.id, w.outcome, i.queue
    )
    select w.id, w.outcome
    from written w
    -- What must run again at once may wait for nobody's poll.
    where case when w.outcome = 'again' then holdfast.wake(w.queue) is not null else true end;
end
$$;
