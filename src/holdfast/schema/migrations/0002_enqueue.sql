-- holdfast.enqueue(): work from any language, in the caller's own transaction.

-- Enqueue under an idempotency key or a caller's own id: the first call makes the job, every later one finds it.
-- Nothing here raises for a repetition, so a caller's transaction is never aborted by one; a key that was used for
-- something else comes back in "conflict".
create function holdfast.enqueue_once(
    id uuid, kind text, payload jsonb, queue text, key text, priority int, available_at timestamptz,
    idempotency_key text, max_attempts int, payload_version int, headers jsonb
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    job   uuid  := coalesce(id, holdfast.uuidv7());
    hash  bytea := sha256(convert_to(payload::text, 'UTF8'));
    first holdfast.dedupe;
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

    insert into holdfast.inbox as i (
        id, partition_key, partition_bucket, payload, queue, priority, available_at, idempotency_key, max_attempts,
        payload_version, headers)
    values (
        job, coalesce(key, job::text), holdfast.bucket(coalesce(key, job::text)), payload, queue, priority,
        greatest(available_at, clock_timestamp()), idempotency_key, max_attempts, payload_version, headers)
    on conflict do nothing
    returning i.id into made;

    -- Two ways to be second here: this id is live, or a hand-written row holds this idempotency key.
    if made is null then
        select i.id into made from holdfast.inbox i where i.id = job or i.idempotency_key = enqueue_once.idempotency_key;
        if made is distinct from job and idempotency_key is not null then
            update holdfast.dedupe d set job_id = made where d.key = idempotency_key;
        end if;
        return query select coalesce(made, job), true, null::text;
        return;
    end if;

    -- The id may have ended already. Looked up after the insert: before it, the row could move in between.
    if id is not null and exists (select from holdfast.archive a where a.id = job) then
        delete from holdfast.inbox i where i.id = job;
        return query select job, true, null::text;
        return;
    end if;

    return query select job, false, null::text;
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
    id uuid default null
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
    elsif delay is not null and at is not null then
        raise exception 'give delay or at, not both' using errcode = 'HF001';
    elsif headers is not null and jsonb_typeof(headers) <> 'object' then
        raise exception 'headers must be a JSON object, got %', jsonb_typeof(headers) using errcode = 'HF001';
    end if;
    payload := jsonb_build_object('type', kind) || args;

    select o.* into made
    from holdfast.enqueue_once(
        id, kind, payload, queue, key, priority, coalesce(at, clock_timestamp() + delay), idempotency_key, max_attempts,
        version, headers) o;
    if made.conflict is not null then
        raise exception 'idempotency key % belongs to job %, which has %', idempotency_key, made.job_id, made.conflict
            using errcode = 'HF002', hint = 'Use a new key for new work.';
    end if;
    return made.job_id;
end
$$;
