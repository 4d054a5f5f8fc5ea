-- Claim rows that are ordered, owned, or suspects: see schema/functions/claim_guarded.sql.
-- Takes    $1–$5 lanes: queue, priority, of owned rows?, start (available_at, seq); $6, $7 their hints; $8, $9 the buckets that
--          are ours; $10–$12 vacated keys: queue, key, were rows of it passed?; $13 rows to look at; $14 keys to lock;
--          $15 rows to take; $16 one suspect instead?; $17 block?; $18–$22 as $6–$10 of claim.sql.
-- Returns  a first row with "about", as JSON; then the claims, with their places.
select c.id, c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind, c.payload_version, c.payload, c.queue,
       c.partition_key, c.headers, c.idempotency_key, c.cancelled, c.expires_in, c.ordered,
       least(pg_catalog.date_part('epoch', holdfast.clock()) - pg_catalog.date_part('epoch', c.available_at), 3155760000::float8) as waited, c.available_at, c.seq, c.about
from holdfast.claim_guarded(
    array(select row(l.queue, l.priority, l.owned, l.start_at, l.start_seq, l.hint_at, l.hint_seq)::holdfast.lane
          from unnest($1::text[], $2::smallint[], $3::boolean[], $4::timestamptz[], $5::bigint[], $6::timestamptz[], $7::bigint[])
               as l (queue, priority, owned, start_at, start_seq, hint_at, hint_seq)),
    array(select row(o.queue, o.bucket)::holdfast.bucket_of_queue
          from unnest($8::text[], $9::int[]) as o (queue, bucket)),
    array(select row(v.queue, v.key, v.passed)::holdfast.vacated_key
          from unnest($10::text[], $11::text[], $12::boolean[]) as v (queue, key, passed)),
    $13, $14, $15, $16, $17, $18::text[], $19::jsonb, $20, $21, $22) c
