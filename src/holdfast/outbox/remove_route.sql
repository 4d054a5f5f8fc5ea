-- Let a route get no more events, until a worker that has it in its code starts.
-- Takes    $1 name, $2 who does it.
-- Returns  its queue.
with removed as (
    update holdfast.routes r
    set removed_at = holdfast.clock()
    where r.name = $1
    returning r.name, r.queue
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'route.removed', r.name, $2::text from removed r
)
select r.queue from removed r
