-- Tell instances that children have ended of which nobody told them: an older release, which does not know workflows, may
-- have completed the child, or somebody has removed its row.
-- A child that left no row at all has completed: every other ending leaves one.
-- Takes    ids of jobs that open steps wait for and that are not in the inbox, in any order.
-- Returns  how many steps have heard.
-- Locks    instances, skipping locked rows, and those that have never waited: they are left until the chore has been
--          through all children and comes to them again.
-- Index    idx_steps_child, primary keys, idx_archive_id.
create or replace function holdfast.tell_missed(ids uuid[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the archive is empty, the look-up there would read all of it
    as $$
declare
    found_ids uuid[];
    ended     text[];
    results   text[];
    reasons   text[];
begin
    select array_agg(u.id), array_agg(case when a.status <> 'completed' then a.status end),
           array_agg(case when a.status = 'completed' then a.result end), array_agg(a.last_error)
    into found_ids, ended, results, reasons
    from unnest(ids) as u (id)
    join lateral (select s.job_id from holdfast.steps s where s.child_id = any (array[u.id]) limit 1) s on true
    join lateral (
        select true as it from holdfast.instances n where n.job_id = any (array[s.job_id]) for no key update skip locked
    ) free on true
    left join lateral (
        select a.status::text, a.result::text, a.last_error from holdfast.archive a where a.id = any (array[u.id]) limit 1
    ) a on true;
    if found_ids is null then
        return 0;
    end if;
    perform holdfast.tell_parents(found_ids, ended, results, reasons);
    return cardinality(found_ids);
end
$$;
