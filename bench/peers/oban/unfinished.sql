-- Whether a job is not completed yet.
select exists (select from oban_jobs where state <> 'completed')
