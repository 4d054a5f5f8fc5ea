-- Expiry: no attempt of a job starts after its expires_at; the job then ends as expired.
--
-- The index is for the chore that ends what no worker claims. It holds only rows that wait and can expire, so jobs without
-- an expiry have no entry in it, and a claim adds none.
alter table holdfast.inbox add column expires_at timestamptz;

create index idx_inbox_expires on holdfast.inbox (expires_at)
    where expires_at is not null and status in ('pending', 'blocked');

alter type holdfast.terms add attribute expires float8;              -- seconds, from when the job is stored
alter type holdfast.terms add attribute expires_at timestamptz;      -- or this time
