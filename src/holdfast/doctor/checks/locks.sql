-- Sessions of this database that wait for a lock, and whom they wait for. Advisory locks, which may be meant to be waited for, too.
-- Returns  the longest wait first: seconds, what it waits for, the pids that it waits for.
select l.pid, extract(epoch from clock_timestamp() - l.waitstart)::float8 as seconds,
       coalesce(l.relation::regclass::text, l.locktype) as what, pg_blocking_pids(l.pid) as blockers
from pg_locks l
where not l.granted
  and l.waitstart is not null
  and (l.database = (select d.oid from pg_database d where d.datname = current_database()) or l.database is null)
order by 2 desc
limit 20
