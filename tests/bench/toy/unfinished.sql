-- Whether a job is not completed yet.
select exists (select from toy where done_at is null)
