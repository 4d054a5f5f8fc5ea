-- Settings that lose work, or let tables grow
-- No row: all is well. fsync, synchronous_commit, full_page_writes, autovacuum and track_counts must be on.
select name, setting, source, 'alter system set ' || name || ' = on; select pg_reload_conf()' as remedy
from pg_settings
where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'track_counts') and setting = 'off'
union all
select 'autovacuum of ' || c.oid::regclass::text, 'off', 'table', 'alter table ' || c.oid::regclass::text || ' reset (autovacuum_enabled)'
from pg_class c
where c.relnamespace = (select relnamespace from pg_class where oid = 'holdfast.inbox'::regclass)
  and array_to_string(c.reloptions, ' ') ~ 'autovacuum_enabled=(off|false|no|0)'
