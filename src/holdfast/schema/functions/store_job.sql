-- Store the job, unless its id is known; its idempotency key has been reserved. "brought": the id may have been used
-- before. This is the one place that reads every term of a job.
drop function if exists holdfast.store_job(       -- as it was up to version 6
    uuid, boolean, text, jsonb, text, text, int, timestamptz, text, int, int, jsonb, boolean, boolean);
create or replace function holdfast.store_job(
    job uuid, brought boolean, key text, payload jsonb, idempotency_key text, terms holdfast.terms
) returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the archive is empty, the look-up there would read all of it
    as $$
#variable_conflict use_variable
declare
    due   constant timestamptz := greatest(clock_timestamp() + make_interval(secs => terms.delay), terms.at);
    other record;
    made  uuid;
begin
    loop
        insert into holdfast.inbox as i (
            id, partition_key, partition_bucket, payload, queue, priority, available_at, idempotency_key, max_attempts,
            payload_version, headers, ordered, skips, owned)
        select
            job, coalesce(key, job::text), holdfast.bucket(coalesce(key, job::text)), payload, terms.queue, terms.priority,
            greatest(due, clock_timestamp()), idempotency_key, terms.max_attempts, terms.version, terms.headers,
            coalesce(terms.ordered, q.ordered, false)
                and holdfast.may_wait(terms.queue, coalesce(terms.skips, q.skips, false), due),
            coalesce(terms.skips, q.skips, false), coalesce(q.owned, false)
        from (select) as always
        left join holdfast.queues q on q.name = terms.queue
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
        return query select other.id, true, holdfast.difference(other.kind, other.payload, terms.kind, payload);
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
            return query select job, true, holdfast.difference(other.kind, other.payload, terms.kind, payload);
            return;
        end if;
    end if;

    return query select job, false, null::text;
end
$$;
