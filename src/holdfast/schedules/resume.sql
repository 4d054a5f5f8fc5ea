-- Resume a schedule. Slots of the pause are neither made up for nor counted as missed.
-- Takes    $1 name, $2 who does it.
-- Returns  its name; nothing when there is none of this name.
with changed as (
    update holdfast.schedules s
    set since = case when s.paused_at is null then s.since else greatest(s.since, holdfast.clock()) end,
        next_at = case when s.paused_at is null then s.next_at end, paused_at = null
    where s.name = $1
    returning s.name
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'schedule.resumed', c.name, $2::text from changed c
)
select c.name from changed c
