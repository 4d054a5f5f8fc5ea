-- Remove a schedule; jobs that it has enqueued stay.
-- Takes    $1 name, $2 who does it.
-- Returns  its source; nothing when there is none.
with removed as (
    delete from holdfast.schedules s
    where s.name = $1
    returning s.name, s.source
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'schedule.removed', r.name, $2::text from removed r
)
select r.source from removed r
