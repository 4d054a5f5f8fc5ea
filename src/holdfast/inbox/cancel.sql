-- Cancel a job: a waiting one ends at once, the handler of a running one is notified.
-- Takes    $1 id, $2 reason, $3 who does it (null: nobody is named, and the journal gets no row).
-- Returns  one row: cancelled (it ended), processing (its handler is notified), dead_letter (nothing was done), or nothing
--          if there is no such live job.
-- Locks, index: see holdfast.cancel_jobs.
with cancelled as materialized (
    select c.id, c.status from holdfast.cancel_jobs(array[$1::uuid], $2::text) c
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'job.cancelled', c.id::text, $3::text, pg_catalog.jsonb_build_object('reason', $2::text)
    from cancelled c
    where $3::text is not null and c.status <> 'dead_letter'
)
select c.status from cancelled c
