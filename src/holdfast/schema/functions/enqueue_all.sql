-- Enqueue many jobs under idempotency keys or their callers' own ids: all of them or, if one of the keys or ids stands
-- for other work, none. A row then names it in "conflict", and the caller's transaction is as it was before. "numbers"
-- says for each job which of the terms are its own.
create or replace function holdfast.enqueue_all(
    ids uuid[], keys text[], payloads jsonb[], idempotency_keys text[], numbers int[], terms holdfast.terms[]
) returns table (n int, job_id uuid, existed boolean, conflict text, replaced boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    jobs  uuid[] := array(select coalesce(u.id, holdfast.uuidv7()) from unnest(ids) with ordinality as u (id, n) order by u.n);
    known boolean[] := array_fill(false, array[cardinality(ids)]);   -- whose idempotency key is another's
    added int[] := array_fill(0, array[cardinality(terms)]);         -- by terms
begin
    if cardinality(ids) = 1 then                             -- the common case, without a subtransaction
        select 1, o.job_id, o.existed, o.conflict, o.replaced into n, job_id, existed, conflict, replaced
        from holdfast.enqueue_once(ids[1], keys[1], payloads[1], idempotency_keys[1], terms[numbers[1]]) o;
        added[numbers[1]] := case when existed then 0 else 1 end;
        return next;
    else
        begin
            -- The keys in their own order, whatever the order given: two callers in opposite orders deadlock.
            for n in select u.n from unnest(idempotency_keys) with ordinality as u (key, n)
                     where u.key is not null order by u.key collate "C", u.n loop
                select r.existed, r.conflict, r.job_id into existed, conflict, job_id
                from holdfast.reserve_key(idempotency_keys[n], jobs[n], terms[numbers[n]].kind, payloads[n]) r;
                if conflict is not null then
                    raise exception using errcode = 'HF002';     -- undoes the ones before
                end if;
                known[n] := existed;
            end loop;
            -- The jobs in the order given, which an ordered key keeps.
            for place in 1 .. cardinality(ids) loop
                n := place;                                  -- the loop's own variable would hide the column
                if known[n] then                             -- asked again: an earlier job of this call may have changed it
                    select r.job_id, r.existed, r.conflict, false into job_id, existed, conflict, replaced
                    from holdfast.reserve_key(idempotency_keys[n], jobs[n], terms[numbers[n]].kind, payloads[n]) r;
                else
                    select s.* into job_id, existed, conflict, replaced
                    from holdfast.store_job(
                        jobs[n], ids[n] is not null, keys[n], payloads[n], idempotency_keys[n], terms[numbers[n]]) s;
                end if;
                if conflict is not null then
                    raise exception using errcode = 'HF002';
                elsif not existed then
                    added[numbers[n]] := added[numbers[n]] + 1;
                end if;
                return next;
            end loop;
        exception when sqlstate 'HF002' then
            return next;
            return;
        end;
    end if;
    for place in 1 .. cardinality(terms) loop
        if added[place] > 0 then
            perform holdfast.wake(terms[place].queue, terms[place].delay, terms[place].at, added[place]);
        end if;
    end loop;
end
$$;
