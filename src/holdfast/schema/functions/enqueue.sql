-- The public door for SQL and every other language. Returns the id of the job; for a repeated idempotency key, the id of
-- the first one. Rejects bad input before anything is stored.
drop function if exists holdfast.enqueue(         -- as it was up to version 6
    text, jsonb, text, text, interval, timestamptz, int, text, int, int, jsonb, uuid, boolean, boolean);
drop function if exists holdfast.enqueue(         -- as it was up to version 15
    text, jsonb, text, text, interval, timestamptz, int, text, int, int, jsonb, uuid, boolean, text);
drop function if exists holdfast.enqueue(         -- as it was in version 16
    text, jsonb, text, text, interval, timestamptz, int, text, int, int, jsonb, uuid, boolean, text, text, boolean, boolean,
    text);
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
    id uuid default null,
    ordered boolean default null,        -- null: as the queue says
    on_failure text default null,        -- 'block' or 'skip'; null: as the queue says
    unique_key text default null,        -- find the job of this kind and key that has not started yet,
    unique_arguments boolean default null,   -- or of the same arguments,
    unique_done boolean default null,    -- or that has not ended yet, instead of adding another
    replace text default null,           -- give that job, if it waits, these 'arguments', or this 'time' as well
    expires interval default null,       -- if it has not started after this long, it ends as expired;
    expires_at timestamptz default null  -- or if it has not started by then
) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    payload jsonb;
    terms   holdfast.terms;
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
    elsif octet_length(unique_key) not between 1 and 512 then
        raise exception 'unique_key must be 1 to 512 bytes, got %', octet_length(unique_key) using errcode = 'HF001';
    elsif unique_key is not null and unique_arguments then
        raise exception 'give unique_key or unique_arguments, not both' using errcode = 'HF001';
    elsif replace not in ('arguments', 'time') then
        raise exception 'replace must be arguments or time, got %', replace using errcode = 'HF001';
    elsif (replace is not null or unique_done) and unique_key is null and unique_arguments is not true then
        raise exception 'replace and unique_done need unique_key or unique_arguments' using errcode = 'HF001';
    elsif expires is not null and expires_at is not null then
        raise exception 'give expires or expires_at, not both' using errcode = 'HF001';
    elsif expires <= interval '0' then
        raise exception 'expires must be above zero, got %', expires using errcode = 'HF001';
    elsif not isfinite(expires_at) or expires > interval '36500 days' then
        raise exception '% is too far ahead: leave it out, if the job need not expire',
                        case when expires_at is null then 'expires' else 'expires_at' end
            using errcode = 'HF001';
    elsif on_failure not in ('block', 'skip') then
        raise exception 'on_failure must be block or skip, got %', on_failure using errcode = 'HF001';
    end if;
    payload := jsonb_build_object('type', kind) || args;

    terms.kind := kind;
    terms.queue := queue;
    terms.priority := priority;
    terms.delay := extract(epoch from delay);
    terms.at := at;
    terms.max_attempts := max_attempts;
    terms.version := version;
    terms.headers := headers;
    terms.ordered := ordered;
    terms.skips := on_failure = 'skip';
    terms.unique_key := unique_key;
    terms.unique_arguments := unique_arguments;
    terms.unique_done := unique_done;
    terms.replace := replace;
    terms.expires := extract(epoch from expires);
    terms.expires_at := expires_at;
    select o.* into made from holdfast.enqueue_once(id, key, payload, idempotency_key, terms) o;
    if made.conflict is not null then
        raise exception 'idempotency key % belongs to job %, which has %', idempotency_key, made.job_id, made.conflict
            using errcode = 'HF002', hint = 'Use a new key for new work.';
    end if;
    if not made.existed or made.replaced then
        perform holdfast.wake(queue, terms.delay, at);
    end if;
    return made.job_id;
end
$$;
