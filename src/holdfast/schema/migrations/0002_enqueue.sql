-- holdfast.enqueue(): work from any language, in the caller's own transaction.

-- Refuses an ordered job that is due later: it would hold up its key until then. Called for ordered jobs only.
create function holdfast.may_wait(queue text, skips boolean, available_at timestamptz) returns boolean
    language plpgsql volatile
    as $$
begin
    if not skips and available_at > clock_timestamp() + interval '1 second' then
        raise exception 'delay, at: an ordered job of queue % that is due later would hold up its key until then', queue
            using errcode = 'HF001',
                  hint = 'Enqueue it when it is due, or let waiting jobs be skipped (on_failure "skip").';
    end if;
    return true;
end
$$;

-- In what a job differs from one that was asked for under the same key or id; null: in nothing.
create function holdfast.difference(kind text, payload jsonb, asked_kind text, asked_payload jsonb) returns text
    language sql immutable parallel safe
    as $$
        select case when kind is distinct from asked_kind then format('kind %s', kind)
                    when payload <> asked_payload then 'another payload' end
    $$;

-- Enqueue under an idempotency key or a caller's own id: the first call makes the job, every later one finds it.
-- Nothing here raises for a repetition, so a caller's transaction is never aborted by one; a key that was used for
-- something else comes back in "conflict".
create function holdfast.enqueue_once(
    id uuid, kind text, payload jsonb, queue text, key text, priority int, available_at timestamptz,
    idempotency_key text, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    job   uuid  := coalesce(id, holdfast.uuidv7());
    hash  bytea := sha256(convert_to(payload::text, 'UTF8'));
    first holdfast.dedupe;
    other record;
    made  uuid;
begin
    -- Insert, then read in a statement of its own: only a fresh snapshot sees a duplicate that committed while we
    -- waited for it. (One "insert or select" statement returns nothing in that case.)
    while idempotency_key is not null loop
        insert into holdfast.dedupe as d (key, job_id, kind, payload_hash)
        values (idempotency_key, job, kind, hash)
        on conflict on constraint dedupe_pkey do nothing;
        exit when found;
        select d.* into first from holdfast.dedupe d where d.key = idempotency_key;
        continue when not found;                                 -- pruned in between: ours again
        if first.kind is distinct from kind then
            return query select first.job_id, true, format('kind %s', first.kind);
        elsif first.payload_hash <> hash then
            return query select first.job_id, true, 'another payload'::text;
        else
            return query select first.job_id, true, null::text;
        end if;
        return;
    end loop;

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
            select i.id, i.kind, i.payload into other from holdfast.inbox i where i.idempotency_key = enqueue_once.idempotency_key;
        end if;
        continue when not found;
        update holdfast.dedupe d
        set job_id = other.id, kind = other.kind, payload_hash = sha256(convert_to(other.payload::text, 'UTF8'))
        where d.key = idempotency_key;
        return query select other.id, true, holdfast.difference(other.kind, other.payload, kind, payload);
        return;
    end loop;

    -- The id may have ended already. Looked up after the insert: before it, the row could move in between.
    if id is not null then
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

-- Enqueue many under idempotency keys or own ids: all, or, when one of them stands for other work, none; a row then
-- names it in "conflict", and the caller's transaction is as it was before.
create function holdfast.enqueue_each(
    ids uuid[], keys text[], payloads jsonb[], idempotency_keys text[], kind text, queue text, priority int,
    available_at timestamptz, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (n int, job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
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
        -- In order of idempotency key, whatever the order given: two callers in opposite orders deadlock.
        for n in select u.n from unnest(ids, idempotency_keys) with ordinality as u (id, key, n)
                 order by u.key collate "C", u.id loop
            select o.job_id, o.existed, o.conflict into job_id, existed, conflict
            from holdfast.enqueue_once(
                ids[n], kind, payloads[n], queue, keys[n], priority, available_at, idempotency_keys[n], max_attempts,
                payload_version, headers, ordered, skips) o;
            if conflict is not null then
                raise exception using errcode = 'HF002';     -- undoes the ones before
            end if;
            return next;
        end loop;
    exception when sqlstate 'HF002' then
        return next;
    end;
end
$$;

-- The public door for SQL and every other language. Returns the id of the job, the first one's for a repeated
-- idempotency key. Refuses bad input before anything is stored.
create function holdfast.enqueue(
    kind text,
    args jsonb default '{}',
    queue text default 'default',
    key text default null,
    delay interval default null,
    at timestamptz default null,
    priority int default 1,
    idempotency_key text default null,
    max_attempts int default 5,
    version int default 1,
    headers jsonb default null,
    id uuid default null,
    ordered boolean default null,        -- null: as the queue says
    skips boolean default null
) returns uuid
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    payload jsonb;
    made    record;
begin
    if kind is null or char_length(kind) not between 1 and 128 then
        raise exception 'kind must be 1 to 128 characters, got %', coalesce(char_length(kind)::text, 'null')
            using errcode = 'HF001';
    elsif jsonb_typeof(coalesce(args, 'null')) <> 'object' then
        raise exception 'args must be a JSON object, got %', coalesce(jsonb_typeof(args), 'null') using errcode = 'HF001';
    elsif args ? 'type' then
        raise exception 'args must not hold "type": that name carries the kind' using errcode = 'HF001';
    elsif octet_length(args::text) > (holdfast.setting('payload_bytes'))::int then
        raise exception 'args are % bytes, the limit is %', octet_length(args::text), holdfast.setting('payload_bytes')
            using errcode = 'HF001', hint = 'Store the data elsewhere and enqueue a reference to it.';
    elsif queue is null or char_length(queue) not between 1 and 128 then
        raise exception 'queue must be 1 to 128 characters' using errcode = 'HF001';
    elsif octet_length(key) not between 1 and 512 then
        raise exception 'key must be 1 to 512 bytes, got %', octet_length(key) using errcode = 'HF001';
    elsif octet_length(idempotency_key) not between 1 and 512 then
        raise exception 'idempotency_key must be 1 to 512 bytes, got %', octet_length(idempotency_key) using errcode = 'HF001';
    elsif priority is null or priority not between 0 and 3 then
        raise exception 'priority must be 0 (first) to 3 (last), got %', coalesce(priority::text, 'null') using errcode = 'HF001';
    elsif max_attempts is null or max_attempts < 1 then
        raise exception 'max_attempts must be at least 1, got %', coalesce(max_attempts::text, 'null') using errcode = 'HF001';
    elsif version is null or version < 1 then
        raise exception 'version must be at least 1, got %', coalesce(version::text, 'null') using errcode = 'HF001';
    elsif jsonb_path_exists(args, 'strict $.**{100}') then
        raise exception 'args are nested deeper than 100 levels' using errcode = 'HF001';
    elsif delay < interval '0' then
        raise exception 'delay must be zero or more, got %', delay using errcode = 'HF001';
    elsif at = 'infinity' or delay > interval '36500 days' then
        raise exception '% is too far ahead: the job would never run', case when at is null then 'delay' else 'at' end
            using errcode = 'HF001';
    elsif delay is not null and at is not null then
        raise exception 'give delay or at, not both' using errcode = 'HF001';
    elsif headers is not null and jsonb_typeof(headers) <> 'object' then
        raise exception 'headers must be a JSON object, got %', jsonb_typeof(headers) using errcode = 'HF001';
    end if;
    payload := jsonb_build_object('type', kind) || args;

    select o.* into made
    from holdfast.enqueue_once(
        id, kind, payload, queue, key, priority, coalesce(at, clock_timestamp() + delay), idempotency_key, max_attempts,
        version, headers, ordered, skips) o;
    if made.conflict is not null then
        raise exception 'idempotency key % belongs to job %, which has %', idempotency_key, made.job_id, made.conflict
            using errcode = 'HF002', hint = 'Use a new key for new work.';
    end if;
    if not made.existed then
        perform holdfast.wake(queue, extract(epoch from delay)::float8, at);
    end if;
    return made.job_id;
end
$$;
