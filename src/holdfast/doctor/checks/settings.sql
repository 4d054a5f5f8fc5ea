-- The settings that safety depends on, as this session has them; which are on the server's command line, where alter system has
-- no effect; and tables whose autovacuum is off.
-- Takes    $1 schema.
select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
       current_setting('full_page_writes') as full_page_writes, current_setting('autovacuum') as autovacuum,
       current_setting('track_counts') as track_counts,
       array(select s.name from pg_settings s where s.source = 'command line') as commanded,
       array(
           select c.relname::text
           from pg_class c
           where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = $1::text)
             and c.reloptions && array['autovacuum_enabled=off', 'autovacuum_enabled=false', 'autovacuum_enabled=0', 'autovacuum_enabled=no']
           order by 1
       ) as unvacuumed
