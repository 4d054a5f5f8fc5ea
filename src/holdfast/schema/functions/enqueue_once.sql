-- Enqueue under an idempotency key or a caller's own id: the first call makes the job, every later one finds it.
-- Nothing here raises for a repetition, so a caller's transaction is never aborted by one; a key that was used for
-- something else comes back in "conflict".
create or replace function holdfast.enqueue_once(
    id uuid, kind text, payload jsonb, queue text, key text, priority int, available_at timestamptz,
    idempotency_key text, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
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
