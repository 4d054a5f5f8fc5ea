-- Walk one chunk of a lane behind its hint, for rows that the floor passed and that this worker can run: back-dated by
-- hand, or locked by a transaction that then did not claim them.
-- Takes    $1 queue; $2 priority; $3, $4 where the last chunk ended; $5, $6 the hint; $7 chunk size;
--          $8 kinds, $9 their payload versions as in claim.sql.
-- Returns  one row: rows seen, where the chunk ended, the first runnable position.
-- Locks    nothing.
-- Index    idx_inbox_claim.
with chunk as materialized (
    select greatest(i.available_at, timestamptz '0001-01-01 00:00:00+00') as available_at, i.seq, i.kind, i.payload_version,
           i.crashes, i.attempts, i.max_attempts
    from holdfast.inbox i
    where i.status = 'pending'
      and not i.ordered
      and not i.owned
      and i.queue = $1
      and i.priority = $2
      and (i.available_at, i.seq) > ($3::timestamptz, $4::bigint)
      and (i.available_at, i.seq) < ($5::timestamptz, $6::bigint)
    order by i.available_at, i.seq
    limit $7
),
runnable as (
    select c.available_at, c.seq
    from chunk c
    where holdfast.knows($8::text[], $9::jsonb, c.kind, c.payload_version)
      and c.crashes = 0
      and c.attempts < c.max_attempts
    limit 1
),
ending as (select max(c.available_at) as at from chunk c)
select (select count(*) from chunk) as seen,
       ending.at as end_at,
       (select max(c.seq) from chunk c where c.available_at = ending.at) as end_seq,
       runnable.available_at as runnable_at,
       runnable.seq as runnable_seq
from ending
left join runnable on true
