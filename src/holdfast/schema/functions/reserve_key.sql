-- Makes the idempotency key the job's; or says whose it is.
create or replace function holdfast.reserve_key(idempotency_key text, job uuid, kind text, payload jsonb)
    returns table (job_id uuid, existed boolean, conflict text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
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
