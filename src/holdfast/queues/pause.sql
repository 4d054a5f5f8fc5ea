-- Pause a queue: claims skip it from now on; running jobs finish.
-- Takes    $1 queue, $2 who does it.
-- Returns  the queue.
with was as materialized (
    select q.paused_at from holdfast.queues q where q.name = $1
),
paused as (
    insert into holdfast.queues as q (name, paused_at)
    values ($1, holdfast.clock())
    on conflict (name) do update set paused_at = coalesce(q.paused_at, excluded.paused_at)
    returning q.name
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'queue.paused', p.name, $2::text
    from paused p
    where not exists (select from was w where w.paused_at is not null)
)
select p.name from paused p
