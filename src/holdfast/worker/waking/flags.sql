-- Raise and lower this session's flags; see holdfast.wake().
-- Takes    $1 states (asleep, awake), $2 queues, $3 up?
-- Returns  each with whether it was done: raising a flag fails while a producer tests it, and is then retried.
-- Locks    one shared advisory lock of the session per flag that is up; never waits.
select f.state, f.queue, f.up,
       case when f.up then pg_try_advisory_lock_shared(holdfast.flag(f.state, f.queue))
            else pg_advisory_unlock_shared(holdfast.flag(f.state, f.queue)) end as done
from unnest($1::text[], $2::text[], $3::boolean[]) as f (state, queue, up)
