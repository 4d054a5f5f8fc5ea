-- Enqueue a job of a schedule now; its slots stay as they are, and it may be paused.
-- Takes    $1 name, $2 id of the job, by which a repeated call finds it; $3 who does it.
-- Returns  the id; nothing when there is none of this name.
with made as materialized (
    select s.name, e.job_id
    from holdfast.schedules s
    cross join lateral holdfast.enqueue_scheduled(s, null, $2) as e
    where s.name = $1
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'schedule.triggered', m.name, $3::text, pg_catalog.jsonb_build_object('job', m.job_id)
    from made m
)
select m.job_id from made m
