-- Mark silent workers as dead, and delete those that have been dead for long.
-- Takes    $1 seconds of silence.
-- Returns  the workers that it marked as dead.
with forgotten as (
    delete from holdfast.workers w
    where w.status = 'dead'
      and w.last_seen_at < holdfast.clock() - make_interval(days => holdfast.setting('worker_days')::int)
)
update holdfast.workers w
set status = 'dead'
where w.status <> 'dead'
  and w.last_seen_at < holdfast.clock() - make_interval(secs => $1)
returning w.id
