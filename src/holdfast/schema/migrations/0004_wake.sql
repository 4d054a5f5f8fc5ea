-- Wake-ups: a hint to workers that sleep. Polling finds all work without it.
--
-- Committing a transaction that notifies takes a lock of the whole cluster, so a producer notifies only when it would
-- help: somebody sleeps on the queue, and nobody is awake who would find the job by itself in a moment. Both are flags
-- in memory: advisory locks that each host's listener holds shared, in its own session. Nothing is written, and a flag
-- ends with its session.

insert into holdfast.settings (name, value) values
    ('notify', 'true');                 -- may enqueue notify? No: for producers that use PREPARE TRANSACTION

-- The channel of this installation. Payloads: ':' and a queue, when work came; '!' when the registry of workers has
-- news for them; '?' and a token when a listener tries its own ears.
create function holdfast.channel() returns text
    language sql immutable parallel safe
    as $$ select replace('holdfast.wake', '"', '') $$;

-- The lock that is the flag "somebody is asleep (or awake) on this queue".
create function holdfast.flag(state text, queue text) returns bigint
    language sql immutable parallel safe
    as $$ select hashtextextended('holdfast.' || state || ' ' || queue, 0) $$;

-- Is the flag up? Try to take its lock and give it back at once: nothing stays, in any transaction, behind any pooler.
-- Another producer who asks in the same instant looks like a flag, too. Taken for "asleep" that is one notification too
-- many; taken for "awake", this one is left to that other producer, who is about to notify.
create function holdfast.is_up(flag bigint) returns boolean
    language plpgsql volatile
    as $$
begin
    return not case when pg_try_advisory_lock(flag) then pg_advisory_unlock(flag) else false end;
end
$$;

-- Work came to this queue, due after "delay" or "at" if given: tell a worker that sleeps, if nobody is awake.
-- Called in the transaction that brings the work; told when it commits. True if it will be.
create function holdfast.wake(queue text, delay float8 default null, at timestamptz default null) returns boolean
    language plpgsql volatile
    as $$
#variable_conflict use_variable
begin
    if delay > 0 or at > clock_timestamp()
       or not holdfast.is_up(holdfast.flag('asleep', queue))
       or holdfast.is_up(holdfast.flag('awake', queue)) then
        return false;
    elsif exists (select from holdfast.queues q where q.name = queue and q.paused_at is not null)
       or holdfast.setting('notify') = 'false'
       or pg_notification_queue_usage() > 0.5 then          -- a full queue fails the commit: no hint is worth that
        return false;
    end if;
    perform pg_notify(holdfast.channel(), ':' || queue);
    return true;
end
$$;

-- The public door for SQL and every other language, as before, and it wakes. Returns the id of the job, the first one's for a repeated
-- idempotency key. Refuses bad input before anything is stored.
create or replace function holdfast.enqueue(
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
        version, headers) o;
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
