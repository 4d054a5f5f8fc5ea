-- Whether a job is not completed yet.
select exists (select from pgboss.job where name = 'noop' and state <> 'completed')
