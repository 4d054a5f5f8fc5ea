-- Who waits for a lock, and because of whom?
-- End the session that is waited for, if you must: select pg_terminate_backend(PID).
select l.pid, now() - l.waitstart as waits, coalesce(l.relation::regclass::text, l.locktype) as waits_for, left(w.query, 60) as query,
       b.pid as because_of, b.state, now() - b.xact_start as open_for, left(b.query, 60) as their_query
from pg_locks l
left join pg_stat_activity w on w.pid = l.pid
cross join lateral unnest(pg_blocking_pids(l.pid)) as blocker (pid)
left join pg_stat_activity b on b.pid = blocker.pid
where not l.granted
order by waits desc nulls last
limit 20
