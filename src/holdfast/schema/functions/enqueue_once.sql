-- Enqueue under an idempotency key or a caller's own id: the first call makes the job, later ones find it. A repeated
-- call raises nothing, so it never aborts the caller's transaction; a key that was used for other work is reported in
-- "conflict".
drop function if exists holdfast.enqueue_once(    -- as it was up to version 6
    uuid, text, jsonb, text, text, int, timestamptz, text, int, int, jsonb, boolean, boolean);
create or replace function holdfast.enqueue_once(
    id uuid, key text, payload jsonb, idempotency_key text, terms holdfast.terms
) returns table (job_id uuid, existed boolean, conflict text, replaced boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    job uuid := coalesce(id, holdfast.uuidv7());
begin
    if idempotency_key is not null then
        select r.job_id, r.existed, r.conflict, false into job_id, existed, conflict, replaced from holdfast.reserve_key(idempotency_key, job, terms.kind, payload) r;
        if existed then
            return next;
            return;
        end if;
    end if;
    return query select s.* from holdfast.store_job(job, id is not null, key, payload, idempotency_key, terms) s;
end
$$;
