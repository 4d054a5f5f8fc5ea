-- How many jobs were completed; pg-boss keeps them.
select count(*) from pgboss.job where name = 'noop' and state = 'completed'
