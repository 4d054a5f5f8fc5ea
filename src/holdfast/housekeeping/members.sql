-- Workers that were silent for a while are dead; those dead for long are forgotten.
-- Takes    $1 seconds of silence.
-- Returns  the workers newly dead.
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
