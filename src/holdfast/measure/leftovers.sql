-- Schemas of runs that were killed: no session holds the lock that a run holds. The check takes that lock for an instant.
-- Takes    $1 a pattern of their names.
select n.nspname::text
from pg_namespace n
where n.nspname like $1
  and pg_try_advisory_xact_lock(pg_catalog.hashtextextended(n.nspname, 0))
order by 1
