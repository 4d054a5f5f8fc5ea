-- Schedules as operators see them.
-- Takes    $1 name (null: all), $2 seconds after which one that no worker has in its code is not in the code any more.
-- Returns  their columns, the time, and since when one is not in the code.
select s.name, s.source, s.kind, s.args, s.options, s.cron, s.every, s.tz, s.missed, s.grace, s.jitter, s.paused_at, s.since,
       s.last_slot, s.next_at, s.skipped, s.last_job, s.error,
       case when s.source = 'code' and s.seen_at < holdfast.clock() - make_interval(secs => $2::float8)
            then s.seen_at end as gone_since,
       holdfast.clock() as now
from holdfast.schedules s
where $1::text is null or s.name = $1
order by s.name
