-- Whether a job is not completed yet. PgQueuer deletes a job when it logs its end.
select exists (select from pgqueuer)
