-- Cancel jobs, as cancel.sql does.
-- Takes    $1 ids, $2 reason, $3 who does it (null: nobody is named, and the journal gets no row).
-- Returns  id and status, as cancel.sql does.
-- Locks, index: see holdfast.cancel_jobs.
with cancelled as materialized (
    select c.id, c.status from holdfast.cancel_jobs($1::uuid[], $2::text) c
),
noted as (
    insert into holdfast.journal (at, what, actor, count, details)
    select holdfast.clock(), 'jobs.cancelled', $3::text, count(*),
           pg_catalog.jsonb_build_object(
               'reason', $2::text, 'jobs', pg_catalog.to_jsonb((pg_catalog.array_agg(c.id))[1:20]))
    from cancelled c
    where $3::text is not null and c.status <> 'dead_letter'
    having count(*) > 0
)
select c.id, c.status from cancelled c
