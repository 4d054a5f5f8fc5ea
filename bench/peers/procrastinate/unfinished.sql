-- Whether a job is not completed yet.
select exists (select from procrastinate_jobs where status <> 'succeeded')
