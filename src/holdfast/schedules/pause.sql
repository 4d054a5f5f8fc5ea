-- Pause a schedule: it fires nothing until it is resumed.
-- Takes    $1 name, $2 who does it.
-- Returns  since when it is paused; nothing when there is none of this name.
with changed as (
    update holdfast.schedules s
    set paused_at = coalesce(s.paused_at, holdfast.clock())
    where s.name = $1
    returning s.name, s.paused_at
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'schedule.paused', c.name, $2::text from changed c
)
select c.paused_at from changed c
