-- Before a sweep: end the sessions of attempts whose lease has expired. Their workers are stopped or cut off, and would
-- keep their locks: on rows of the application, for which the next attempt waits, and on the job's row, which the sweep
-- would pass over.
-- Takes    $1 to $4 as the sweep that follows in the same transaction.
-- Returns  the pids that were told to end, and whose attempt; not those of roles whose sessions we may not end.
-- Locks    the rows of such attempts, skipping locked ones; never waits. A row that it locks stays expired until it is
--          swept: its lease cannot be renewed any more, so its session can be ended. If the row is locked by that very
--          session, which has completed it and does not commit, the session is ended, too; this waits for its end, so
--          that the sweep finds the row free. A row that is locked by another session, such as a renewal, is left.
-- Index    idx_inbox_stale_processing, from the floor on; the activity of sessions is read once, if anything has expired.
with expired as materialized (
    select i.id, i.xmax as locker, pg_catalog.format('holdfast job %s %s', i.id, i.lease_generation) as name
    from holdfast.inbox i
    where i.status = 'processing'
      and i.lease_expires_at >= $1
      and (i.lease_expires_at, i.id) > ($1, $2)
      and i.lease_expires_at < $3
    order by i.lease_expires_at, i.id
    limit $4
),
named as materialized (
    select a.pid, a.application_name as name, a.backend_xid as xid
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where exists (select from expired)
      and a.application_name like 'holdfast job %'
      and a.datname = current_database()
      and a.backend_type = 'client backend'
      and pg_has_role(r.oid, 'usage')
      and (not r.rolsuper or current_setting('is_superuser') = 'on')
),
session as materialized (
    select n.pid, n.name, e.id, coalesce(n.xid = e.locker, false) as completed
    from named n
    join expired e on e.name = n.name
),
locked as materialized (
    select i.id
    from (select s.id, s.name from session s order by s.id) s
    join holdfast.inbox i on i.id = any (array[s.id])
    where i.status::text = 'processing'
      and i.lease_expires_at < $3
      and pg_catalog.format('holdfast job %s %s', i.id, i.lease_generation) = s.name
    order by s.id
    for update of i skip locked
)
select s.pid, s.name, case when s.completed then pg_terminate_backend(s.pid, 500::bigint) else pg_terminate_backend(s.pid) end
from session s
where s.completed
   or s.id in (select l.id from locked l)
