-- The schedules that have something to do soon, of those that may be fired here: the ones in the table, and the ones of our
-- code that are as our code declares them.
-- Takes    $1 digests of our code, $2 how far to look ahead, in seconds (null: at all), $3 how many.
-- Returns  the schedules, soonest first, and the time.
-- Index    idx_schedules_next.
select s.name, s.cron, s.every, s.tz, s.missed, s.grace, s.jitter, s.since, s.last_slot, s.next_at, s.revision,
       s.error, holdfast.clock() as now
from holdfast.schedules s
where s.paused_at is null
  and coalesce(s.next_at, '-infinity'::timestamptz)
      <= coalesce(holdfast.clock() + make_interval(secs => $2::float8), 'infinity'::timestamptz)
  and (s.source = 'row' or s.digest = any ($1::text[]))
order by coalesce(s.next_at, '-infinity'::timestamptz)
limit $3
