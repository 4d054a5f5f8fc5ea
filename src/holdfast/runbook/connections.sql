-- Who uses the connections?
-- Close idle ones, use a pooler, or raise max_connections (and restart the server).
select usename as role, application_name, state, count(*) as connections, max(now() - state_change) as longest,
       current_setting('max_connections')::int as most
from pg_stat_activity
where backend_type = 'client backend'
group by usename, application_name, state
order by connections desc
limit 20
