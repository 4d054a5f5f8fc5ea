-- Resume a queue.
-- Takes    $1 queue, $2 who does it.
-- Returns  was it paused? No row: there is no such queue yet.
with was as materialized (
    select q.name, q.paused_at from holdfast.queues q where q.name = $1 for update
),
resumed as (
    update holdfast.queues q
    set paused_at = null
    from was w
    where q.name = w.name
    returning q.name, w.paused_at is not null as paused
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'queue.resumed', w.name, $2::text, pg_catalog.jsonb_build_object('paused_at', w.paused_at)
    from was w
    where w.paused_at is not null
)
select r.paused, holdfast.wake(r.name) from resumed r
