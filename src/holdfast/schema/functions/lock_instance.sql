-- Lock the row of an instance in "instances", and insert it if it is missing.
-- Locks    the row; waits for transactions that hold it.
create or replace function holdfast.lock_instance(job uuid) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the table is empty
    as $$
begin
    perform from holdfast.instances s where s.job_id = job for no key update;
    if not found then
        perform pg_advisory_xact_lock(holdfast.instance_lock(job));    -- park tries this lock before it inserts
        insert into holdfast.instances as s (job_id) values (job)
        on conflict (job_id) do update set mail = s.mail;              -- locks it, in REPEATABLE READ or not at all
    end if;
end
$$;
