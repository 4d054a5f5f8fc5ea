-- Put a schedule into the table at run time, or replace the one of this name; a pause stays.
-- Takes    $1 the schedule as JSON, by the names of the columns; $2 who does it.
-- Returns  its name; nothing when the name belongs to a schedule of the code.
with changed as (
    insert into holdfast.schedules as s (name, kind, args, options, cron, every, tz, missed, grace, jitter, since)
    select o.name, o.kind, o.args, o.options, o.cron, o.every, o.tz, o.missed, o.grace, o.jitter, holdfast.clock()
    from pg_catalog.jsonb_populate_record(null::holdfast.schedules, $1::text::jsonb) as o
    on conflict (name) do update
        set kind = excluded.kind, args = excluded.args, options = excluded.options, cron = excluded.cron,
            every = excluded.every, tz = excluded.tz, missed = excluded.missed, grace = excluded.grace,
            jitter = excluded.jitter, error = null
        where s.source = 'row'
    returning s.name, s.kind
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'schedule.put', c.name, $2::text, pg_catalog.jsonb_build_object('kind', c.kind) from changed c
)
select c.name from changed c
