-- How many connections are used, and how many there can be for ordinary roles.
select count(*) filter (where a.backend_type = 'client backend') as used,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) as most
from pg_stat_activity a
