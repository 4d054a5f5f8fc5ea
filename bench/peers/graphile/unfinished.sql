-- Whether a job is not completed yet. Graphile Worker deletes a job when it is completed; failed ones stay.
select exists (select from graphile_worker._private_jobs)
