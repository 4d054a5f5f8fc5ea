-- Many jobs under idempotency keys, or repeated after a lost answer, are stored in the order in which they were given.
-- They were stored in the order of their keys and ids, and an ordered key then ran them in that order.

-- Makes the idempotency key the job's; or says whose it is.
create function holdfast.reserve_key(idempotency_key text, job uuid, kind text, payload jsonb)
    returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    hash  bytea := sha256(convert_to(payload::text, 'UTF8'));
    first holdfast.dedupe;
begin
    -- Insert, then read in a statement of its own: only a fresh snapshot sees a duplicate that committed while we
    -- waited for it. (One "insert or select" statement returns nothing in that case.)
    loop
        insert into holdfast.dedupe as d (key, job_id, kind, payload_hash)
        values (idempotency_key, job, kind, hash)
        on conflict on constraint dedupe_pkey do nothing;
        if found then
            return query select job, false, null::text;
            return;
        end if;
        select d.* into first from holdfast.dedupe d where d.key = idempotency_key;
        exit when found;                                         -- else pruned in between: ours again
    end loop;
    return query select first.job_id, true,
        case when first.kind is distinct from kind then format('kind %s', first.kind)
             when first.payload_hash <> hash then 'another payload' end;
end
$$;

-- Stores the job, unless its id is known; its idempotency key is reserved already. "brought": the id is one that may
-- have been used before.
create function holdfast.store_job(
    job uuid, brought boolean, kind text, payload jsonb, queue text, key text, priority int, available_at timestamptz,
    idempotency_key text, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set enable_seqscan = off                     -- planned while the archive is empty, the look-up there would read it all
    as $$
#variable_conflict use_variable
declare
    other record;
    made  uuid;
begin
    loop
        insert into holdfast.inbox as i (
            id, partition_key, partition_bucket, payload, queue, priority, available_at, idempotency_key, max_attempts,
            payload_version, headers, ordered, skips, owned)
        select
            job, coalesce(key, job::text), holdfast.bucket(coalesce(key, job::text)), payload, queue, priority,
            greatest(available_at, clock_timestamp()), idempotency_key, max_attempts, payload_version, headers,
            coalesce(ordered, q.ordered, false)
                and holdfast.may_wait(queue, coalesce(skips, q.skips, false), available_at),
            coalesce(skips, q.skips, false), coalesce(q.owned, false)
        from (select) as always
        left join holdfast.queues q on q.name = queue
        where pg_current_xact_id() is not null               -- drawn before the clock is read: the claim floor needs it
        on conflict do nothing
        returning i.id into made;
        exit when found;

        -- Two ways to be second here: this id is live, or a hand-written row holds this idempotency key. Either may
        -- end while we look; then its place is free again.
        select i.id, i.kind, i.payload into other from holdfast.inbox i where i.id = job;
        if not found and idempotency_key is not null then
            select i.id, i.kind, i.payload into other from holdfast.inbox i where i.idempotency_key = store_job.idempotency_key;
        end if;
        continue when not found;
        update holdfast.dedupe d
        set job_id = other.id, kind = other.kind, payload_hash = sha256(convert_to(other.payload::text, 'UTF8'))
        where d.key = idempotency_key;
        return query select other.id, true, holdfast.difference(other.kind, other.payload, kind, payload);
        return;
    end loop;

    -- The id may have ended already. Looked up after the insert: before it, the row could move in between.
    if brought then
        select a.kind, a.payload into other from holdfast.archive a where a.id = job limit 1;
        if found then
            delete from holdfast.inbox i where i.id = job;
            update holdfast.dedupe d
            set expires_at = holdfast.clock() + make_interval(secs => holdfast.setting('dedupe_horizon')::float8)
            where d.key = idempotency_key;
            return query select job, true, holdfast.difference(other.kind, other.payload, kind, payload);
            return;
        end if;
    end if;

    return query select job, false, null::text;
end
$$;

-- Enqueue under an idempotency key or a caller's own id: the first call makes the job, every later one finds it.
-- Nothing here raises for a repetition, so a caller's transaction is never aborted by one; a key that was used for
-- something else comes back in "conflict".
create or replace function holdfast.enqueue_once(
    id uuid, kind text, payload jsonb, queue text, key text, priority int, available_at timestamptz,
    idempotency_key text, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    job uuid := coalesce(id, holdfast.uuidv7());
begin
    if idempotency_key is not null then
        select r.* into job_id, existed, conflict from holdfast.reserve_key(idempotency_key, job, kind, payload) r;
        if existed then
            return next;
            return;
        end if;
    end if;
    return query
        select s.* from holdfast.store_job(
            job, id is not null, kind, payload, queue, key, priority, available_at, idempotency_key, max_attempts,
            payload_version, headers, ordered, skips) s;
end
$$;

-- Enqueue many under idempotency keys or own ids: all, or, when one of them stands for other work, none; a row then
-- names it in "conflict", and the caller's transaction is as it was before.
create or replace function holdfast.enqueue_each(
    ids uuid[], keys text[], payloads jsonb[], idempotency_keys text[], kind text, queue text, priority int,
    available_at timestamptz, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (n int, job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    jobs  uuid[] := array(select coalesce(u.id, holdfast.uuidv7()) from unnest(ids) with ordinality as u (id, n) order by u.n);
    known boolean[] := array_fill(false, array[cardinality(ids)]);   -- whose idempotency key is another's
begin
    if cardinality(ids) = 1 then                             -- the common case, without a subtransaction
        return query
            select 1, o.job_id, o.existed, o.conflict
            from holdfast.enqueue_once(
                ids[1], kind, payloads[1], queue, keys[1], priority, available_at, idempotency_keys[1], max_attempts,
                payload_version, headers, ordered, skips) o;
        return;
    end if;
    begin
        -- The keys in their own order, whatever the order given: two callers in opposite orders deadlock.
        for n in select u.n from unnest(idempotency_keys) with ordinality as u (key, n)
                 where u.key is not null order by u.key collate "C", u.n loop
            select r.existed, r.conflict, r.job_id into existed, conflict, job_id
            from holdfast.reserve_key(idempotency_keys[n], jobs[n], kind, payloads[n]) r;
            if conflict is not null then
                raise exception using errcode = 'HF002';     -- undoes the ones before
            end if;
            known[n] := existed;
        end loop;
        -- The jobs in the order given, which an ordered key keeps.
        for place in 1 .. cardinality(ids) loop
            n := place;                                      -- the loop's own variable would hide the column
            if known[n] then                                 -- asked again: an earlier one of this call may have learnt more
                select r.* into job_id, existed, conflict
                from holdfast.reserve_key(idempotency_keys[n], jobs[n], kind, payloads[n]) r;
            else
                select s.* into job_id, existed, conflict
                from holdfast.store_job(
                    jobs[n], ids[n] is not null, kind, payloads[n], queue, keys[n], priority, available_at,
                    idempotency_keys[n], max_attempts, payload_version, headers, ordered, skips) s;
            end if;
            if conflict is not null then
                raise exception using errcode = 'HF002';
            end if;
            return next;
        end loop;
    exception when sqlstate 'HF002' then
        return next;
    end;
end
$$;
