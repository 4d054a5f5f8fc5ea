-- Remove the steps, signals and instances rows of jobs that have ended. What a signal's open transaction holds is left to the
-- chore "instances".
-- Locks    instances, skipping locked rows; steps.
-- Index    primary keys alone.
create or replace function holdfast.remove_rows(ids uuid[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the table is empty
    as $$
begin
    with waited as materialized (
        select u.id
        from unnest(ids) as u (id)
        cross join lateral (
            select s.mail from holdfast.instances s where s.job_id = any (array[u.id]) for update skip locked
        ) s
    ),
    no_signals as (
        delete from holdfast.signals g using waited w where g.job_id = any (array[w.id])
    )
    delete from holdfast.instances s using waited w where s.job_id = any (array[w.id]);
    delete from holdfast.steps s using unnest(ids) as u (id) where s.job_id = any (array[u.id]);
end
$$;
