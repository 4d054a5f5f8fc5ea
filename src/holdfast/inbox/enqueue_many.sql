-- Enqueue many jobs in one statement.
-- Takes    arrays of text and numbers: $1 ids, $2 keys, $3 buckets, $4 payloads, $5 which of the terms are each job's
--          own, $6 terms as JSON, see holdfast.terms.
-- Returns  how many.
-- The condition draws the xid before the clock is read; see enqueue.sql. Jobs of the same terms share one moment: seq
-- keeps their order.
with terms as materialized (
    select u.n, t.kind, t.queue, t.priority, t.delay, t.at, t.max_attempts, t.version, t.headers,
           greatest(due.at, clock_timestamp()) as available_at,
           coalesce(t.ordered, q.ordered, false)
               and holdfast.may_wait(t.queue, coalesce(t.skips, q.skips, false), due.at) as ordered,
           coalesce(t.skips, q.skips, false) as skips, coalesce(q.owned, false) as owned,
           holdfast.expiry(t, due.at) as expires_at
    from pg_catalog.unnest($6::text[]) with ordinality as u (terms, n)
    cross join lateral pg_catalog.jsonb_populate_record(null::holdfast.terms, u.terms::jsonb) as t
    cross join lateral (select greatest(clock_timestamp() + make_interval(secs => t.delay), t.at) as at) as due
    left join holdfast.queues q on q.name = t.queue
    where pg_current_xact_id() is not null
),
made as (
    insert into holdfast.inbox (
        id, partition_key, partition_bucket, kind, payload, queue, priority, available_at, max_attempts, payload_version,
        headers, ordered, skips, owned, expires_at)
    select j.id::uuid, j.key, j.bucket, t.kind, j.payload::jsonb, t.queue, t.priority, t.available_at, t.max_attempts,
           t.version, t.headers, t.ordered, t.skips, t.owned, t.expires_at
    from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::int[])
        with ordinality as j (id, key, bucket, payload, terms, n)
    join terms t on t.n = j.terms
    order by j.n
    returning id
)
select m.number, w.woken
from (select count(*) as number from made) as m
cross join lateral (
    select bool_or(holdfast.wake(t.queue, t.delay, t.at, c.jobs)) as woken
    from (select j.terms, count(*)::int as jobs from pg_catalog.unnest($5::int[]) as j (terms) group by j.terms) as c
    join terms t on t.n = c.terms
    where m.number > 0) as w
