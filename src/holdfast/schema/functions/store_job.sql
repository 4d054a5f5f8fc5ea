-- Store the job, unless its id is known, or a job that it must not be beside; its idempotency key has been reserved.
-- "brought": the id may have been used before. This is the one place that reads every term of a job.
--
-- A unique job waits for a rival that is not committed yet: if that is rolled back, this one is stored. Never "on conflict
-- do update": it would lock the row of a running job until the producer commits, and its completion with it. A job that
-- is replaced gets a time that is not before now, drawn after the xid, as every new row: the claim floor needs it. A job
-- that waits and has expired must not stand for a new one: it is ended here.
drop function if exists holdfast.store_job(       -- as it was up to version 6
    uuid, boolean, text, jsonb, text, text, int, timestamptz, text, int, int, jsonb, boolean, boolean);
create or replace function holdfast.store_job(
    job uuid, brought boolean, key text, payload jsonb, idempotency_key text, terms holdfast.terms
) returns table (job_id uuid, existed boolean, conflict text, replaced boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the archive is empty, the look-up there would read all of it
    as $$
#variable_conflict use_variable
declare
    due   constant timestamptz := greatest(clock_timestamp() + make_interval(secs => terms.delay), terms.at);
    uniq  constant text := case when terms.unique_arguments
                                then encode(sha256(convert_to((payload - 'type')::text, 'UTF8')), 'hex')
                                else terms.unique_key end;
    expires constant timestamptz := case when terms.expires is not null or terms.expires_at is not null
                                         then holdfast.expiry(terms, due) end;
    other record;
    made  uuid;
    waits_until timestamptz;
begin
    loop
        insert into holdfast.inbox as i (
            id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, idempotency_key, max_attempts,
            payload_version, headers, ordered, skips, owned, unique_key, unique_done, expires_at)
        select
            job, coalesce(key, job::text), holdfast.bucket(coalesce(key, job::text)), terms.kind, payload, terms.queue,
            terms.priority, greatest(due, clock_timestamp()), idempotency_key, terms.max_attempts, terms.version, terms.headers,
            coalesce(terms.ordered, q.ordered, false)
                and holdfast.may_wait(terms.queue, coalesce(terms.skips, q.skips, false), due),
            coalesce(terms.skips, q.skips, false), coalesce(q.owned, false), uniq,
            case when uniq is not null then coalesce(terms.unique_done, false) end, expires
        from (select) as always
        left join holdfast.queues q on q.name = terms.queue
        where pg_current_xact_id() is not null               -- drawn before the clock is read: the claim floor needs it
        on conflict do nothing
        returning i.id into made;
        exit when found;

        -- Three ways to be second here: this id is live, a hand-written row holds this idempotency key, or another job
        -- holds the unique key. Each may end while we look; then its place is free again.
        select i.id, i.kind, i.payload into other from holdfast.inbox i where i.id = job;
        if not found and idempotency_key is not null then
            select i.id, i.kind, i.payload into other from holdfast.inbox i where i.idempotency_key = store_job.idempotency_key;
        end if;
        if found then
            update holdfast.dedupe d
            set job_id = other.id, kind = other.kind, payload_hash = sha256(convert_to(other.payload::text, 'UTF8'))
            where d.key = idempotency_key;
            return query select other.id, true, holdfast.difference(other.kind, other.payload, terms.kind, payload), false;
            return;
        end if;
        continue when uniq is null;
        if terms.replace is not null then
            update holdfast.inbox i
            set payload = store_job.payload, payload_version = terms.version, headers = terms.headers, attempts = 0,
                max_attempts = terms.max_attempts, crashes = 0, snoozes = null, errors = null, last_error = null,
                expires_at = expires,
                available_at = case when terms.replace = 'time' then greatest(due, clock_timestamp())
                                    else greatest(i.available_at, clock_timestamp()) end
            where i.kind = terms.kind and i.unique_key = uniq and (i.lease_generation = 0 or i.unique_done)
              and i.status in ('pending', 'blocked')
            returning i.id, i.available_at into made, waits_until;
            if found then
                if waits_until > clock_timestamp() and waits_until >= expires then
                    raise exception 'expires: the job that waits is due at %, and would expire at %, before it could start',
                                    holdfast.stamp(waits_until), holdfast.stamp(expires)
                        using errcode = 'HF001', hint = 'Replace its time as well, or let it expire later.';
                end if;
                update holdfast.dedupe d
                set job_id = made,
                    expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
                where d.key = idempotency_key;
                return query select made, true, null::text, true;
                return;
            end if;
        end if;
        select i.id, i.expires_at into other
        from holdfast.inbox i
        where i.kind = terms.kind and i.unique_key = uniq and (i.lease_generation = 0 or i.unique_done)
          and i.status <> 'dead_letter';
        continue when not found;
        if other.expires_at <= holdfast.clock() then
            perform from holdfast.expire_jobs(array[other.id]);
            continue when found;
            -- It runs, and began in time; or another session was faster: it has ended the job, replaced it, or claimed it.
            perform
            from holdfast.inbox i
            where i.id = other.id and (i.lease_generation = 0 or i.unique_done) and i.status <> 'dead_letter'
              and (i.status = 'processing' or i.expires_at > holdfast.clock() or i.expires_at is null);
            continue when not found;
        end if;
        -- The key now stands for another job, whose ending does not know it. So its horizon begins now.
        update holdfast.dedupe d
        set job_id = other.id,
            expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        where d.key = idempotency_key;
        return query select other.id, true, null::text, false;
        return;
    end loop;

    -- The id may have ended already. Looked up after the insert: before it, the row could move in between.
    if brought then
        select a.kind, a.payload into other from holdfast.archive a where a.id = job limit 1;
        if found then
            delete from holdfast.inbox i where i.id = job;
            update holdfast.dedupe d
            set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
            where d.key = idempotency_key;
            return query select job, true, holdfast.difference(other.kind, other.payload, terms.kind, payload), false;
            return;
        end if;
    end if;

    return query select job, false, null::text, false;
end
$$;
