-- The job of an instance, by the id given at its start or by the job's id; null: there has been none, as far as is known.
-- Index    idx_inbox_idempotency_key, primary keys, idx_archive_id.
create or replace function holdfast.instance_id(instance text) returns uuid
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    job uuid;
begin
    select i.id into job from holdfast.inbox i where i.idempotency_key = instance;
    if job is null then
        select d.job_id into job from holdfast.dedupe d where d.key = instance;
    end if;
    if job is null and instance ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
        select i.id into job from holdfast.inbox i where i.id = instance::uuid;
        if job is null then
            select a.id into job from holdfast.archive a where a.id = instance::uuid limit 1;
        end if;
    end if;
    return job;
end
$$;
