-- Note in the journal what somebody does to jobs: one row for all of them, with their queue if they have the same, their kinds,
-- and the first of their ids.
-- Takes    what; the jobs, with their queues and kinds; by whom (null: holdfast.actor() says it); more.
-- Returns  the id of the row; null if there are no jobs.
create or replace function holdfast.note_jobs(
    what text, ids uuid[], queues text[], kinds text[], actor text default null, details jsonb default '{}'
) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    if coalesce(cardinality(ids), 0) = 0 then
        return null;
    end if;
    return holdfast.note(
        what, (select case when count(distinct q.queue) = 1 then min(q.queue) else '' end from unnest(queues) as q (queue)),
        actor, cardinality(ids),
        details || jsonb_build_object(
            'jobs', to_jsonb(ids[1:20]),
            'kinds', (select jsonb_agg(k.kind)
                      from (select distinct u.kind from unnest(kinds) as u (kind) order by u.kind limit 10) as k)));
end
$$;
