-- For callers in SQL: cancel jobs, all or none. Returns id and status: cancelled, or processing (its handler is notified). An
-- id that does not come back has no live job. Raises HF003 if one is a dead letter, of which nothing runs any more. Applications
-- cancel jobs as part of their work, so the journal gets a row only if the setting holdfast.actor names somebody.
create or replace function holdfast.cancel(ids uuid[], reason text default 'cancelled') returns table (id uuid, status text)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    one       record;
    cancelled uuid[] := '{}';
begin
    for one in select c.id, c.status from holdfast.cancel_jobs(ids, reason) c loop
        if one.status = 'dead_letter' then
            raise exception 'job % is a dead letter and cannot be cancelled', one.id
                using errcode = 'HF003', hint = 'Use holdfast.discard() to remove it, or revive it.';
        end if;
        id := one.id;
        status := one.status;
        cancelled := cancelled || one.id;
        return next;
    end loop;
    if cardinality(cancelled) > 0 and nullif(current_setting('holdfast' || '.actor', true), '') is not null then
        perform holdfast.note('jobs.cancelled', '', null, cardinality(cancelled),
                              jsonb_build_object('reason', cancel.reason, 'jobs', to_jsonb(cancelled[1:20])));
    end if;
end
$$;
