-- The sessions of Holdfast, as the server sees them
-- With a pooler, sessions have no purpose in their name: set Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler.
select application_name, host(client_addr) as client, count(*) as sessions, min(backend_start) as since
from pg_stat_activity
where datname = current_database() and application_name like 'holdfast%'
group by application_name, client_addr
order by application_name
