-- Jobs whose lease is over, and that nobody has returned
-- No worker: start one. Otherwise a session locks the rows: end the oldest one that is idle in transaction.
select id, kind, partition_key, claimed_by, lease_expires_at, attempts, last_error
from holdfast.inbox
where status = 'processing' and lease_expires_at < now()
order by lease_expires_at
limit 50
