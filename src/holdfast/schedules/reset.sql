-- Let a schedule count from now on, as if it had never fired: after the database's clock was ahead, and so the last slot is.
-- Slots that have a job get no second one: its idempotency key stands for it.
-- Takes    $1 name, $2 who does it.
-- Returns  its name; nothing when there is none of this name.
with changed as (
    update holdfast.schedules s
    set since = holdfast.clock(), last_slot = null, next_at = null, skipped = 0, error = null
    where s.name = $1
    returning s.name
),
noted as (
    insert into holdfast.journal (at, what, subject, actor)
    select holdfast.clock(), 'schedule.reset', c.name, $2::text from changed c
)
select c.name from changed c
