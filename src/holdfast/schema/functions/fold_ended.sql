-- Move what is stored of jobs that have ended to their rows in the archive, if they have one, and remove it. For endings
-- that no worker of theirs writes, and for what they left behind: a signal may come while its instance ends.
-- Takes    ids of jobs that are not in the inbox, in any order. Most have nothing stored.
-- Returns  how many had something.
-- Locks    instances, skipping locked rows: their jobs are left for the next run.
-- Index    primary keys, idx_archive_id.
create or replace function holdfast.fold_ended(ids uuid[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the table is empty
    as $$
declare
    found_ids uuid[];
begin
    select array_agg(u.id) into found_ids
    from (select distinct t.id from unnest(ids) as t (id)) u
    left join lateral (select true as it from holdfast.steps s where s.job_id = any (array[u.id]) limit 1) s on true
    left join lateral (select true as it from holdfast.instances n where n.job_id = any (array[u.id]) limit 1) n on true
    left join lateral (
        select true as it from holdfast.instances n where n.job_id = any (array[u.id]) for update skip locked
    ) free on true
    where case when n.it then free.it else s.it end;
    if found_ids is null then
        return 0;
    end if;
    update holdfast.archive a
    set steps = case
            when a.steps is null then holdfast.folded(a.id)
            else jsonb_set(a.steps, '{signals}', coalesce(a.steps -> 'signals', '[]') || coalesce((
                select jsonb_agg(g.one)
                from jsonb_array_elements(holdfast.folded(a.id) -> 'signals') as g (one)
                where g.one ->> 'n' not in (
                    select k.one ->> 'n' from jsonb_array_elements(coalesce(a.steps -> 'signals', '[]')) as k (one))), '[]')) end
    from unnest(found_ids) as f (id)
    where a.id = any (array[f.id]);
    perform holdfast.remove_rows(found_ids);
    return cardinality(found_ids);
end
$$;
