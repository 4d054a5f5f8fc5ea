-- End the sessions in which these attempts write: their process is dead, and their locks must not stay until the server
-- notices that, which it does when the statement ends.
-- Takes    $1 ids, $2 generations.
-- Returns  the pids that were told to end; not those of roles whose sessions we may not end.
-- Locks    none.
-- Index    none: it reads the activity of all sessions.
with session as materialized (
    select a.pid
    from pg_stat_activity a
    join pg_roles r on r.oid = a.usesysid
    where a.application_name = any (array(
              select pg_catalog.format('holdfast job %s %s', u.id, u.generation)
              from unnest($1::uuid[], $2::bigint[]) as u (id, generation)))
      and a.datname = current_database()
      and a.backend_type = 'client backend'
      and pg_has_role(r.oid, 'usage')
      and (not r.rolsuper or current_setting('is_superuser') = 'on')
)
select s.pid, pg_terminate_backend(s.pid) from session s
