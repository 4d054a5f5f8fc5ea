-- Enqueue many under idempotency keys or own ids: all, or, when one of them stands for other work, none; a row then
-- names it in "conflict", and the caller's transaction is as it was before.
create or replace function holdfast.enqueue_each(
    ids uuid[], keys text[], payloads jsonb[], idempotency_keys text[], kind text, queue text, priority int,
    available_at timestamptz, max_attempts int, payload_version int, headers jsonb, ordered boolean, skips boolean
) returns table (n int, job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
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
