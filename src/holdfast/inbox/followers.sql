-- The rows that wait behind the heads of ordered keys which the caller holds: in the order in which they would be claimed.
--
-- Nothing is claimed. While a row of a key is in processing, nobody else may decide about the key, so its holder may read what
-- comes next without the key's lock. It reads all that waits, not only what comes after its own row: a row with a lower seq may
-- have committed since the claim, and comes first.
-- Takes    $1 queues and $2 keys; $3 most rows per key; $4 kinds and $5 versions, as $6 and $7 of claim.sql.
-- Returns  position of the key, seq, and the fields of a claim; "ready": it may run now. What comes after a row that is not
--          ready has to wait for that row.
-- Locks    nothing.
-- Index    idx_inbox_key per key.
select k.n, i.seq, i.ready, i.id, i.lease_generation, i.attempts, i.max_attempts, i.kind, i.payload_version, i.payload, i.headers,
       i.waited
from unnest($1::text[], $2::text[]) with ordinality as k (queue, key, n)
cross join lateral (
    select i.seq, i.id, i.lease_generation, i.attempts, i.max_attempts, i.kind, i.payload_version, i.payload::text as payload,
           i.headers::text as headers,
           least(pg_catalog.date_part('epoch', holdfast.clock()) - pg_catalog.date_part('epoch', i.available_at), 3155760000::float8) as waited,
           i.available_at <= holdfast.clock()
           and holdfast.knows($4::text[], $5::jsonb, i.kind, i.payload_version)
           and i.crashes = 0
           and i.attempts = 0            -- a failed one is claimed: so each of its failures counts, but for the first
           and i.cancel_requested_at is null
           and i.idempotency_key is null
           and not coalesce(isfinite(i.expires_at), false)
           and i.queue <> all (array(select q.name from holdfast.queues q where q.paused_at is not null)) as ready
    from holdfast.inbox i
    where i.ordered and i.status in ('pending', 'blocked')
      and i.queue = k.queue
      and i.partition_key = k.key
      and not (i.skips and i.status::text = 'pending'
               and i.available_at > greatest(holdfast.clock(), clock_timestamp()))
    order by i.seq
    limit $3
) i
