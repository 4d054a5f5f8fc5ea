-- Claim due rows of the lanes, in the order of the index, from each lane's floor on.
-- Takes    $1–$4 lanes: queue, priority, floor (available_at, seq); $5 limit; $6 kinds, $7 {kind: [oldest, newest]}
--          payload versions of kinds with others than version 1; $8 worker; $9 lease in seconds; $10 rescan?
--          $11 also check for ordered rows?
-- Returns  one row per claim, in the order of their places, with a rank: priority, then arrival, and
--          the seconds for which it was due ("waited"); and a last row with only
--          "about", which holds as JSON: "at", the time; "paused" and "owned" queues; on a rescan "snapshot", the xids that
--          are "running", and whether "suspects" wait; if asked for, whether ordered rows wait ("guarded"); how many rows
--          it "found". Rows that changed between the scan's snapshot and their lock are not claimed: then it has
--          found more than it returns. If it found as many as it wanted, the last lane that it "reached", and in
--          "stops" where the scan of that lane stopped: [lane, available_at, seq].
--          A row that was cancelled while an earlier attempt ran is marked as such, and must not be run. Nor must one
--          that has expired: "expires_in" is the seconds left, null if it cannot expire. Expired rows are claimed, to be
--          ended; left out here, every scan would walk over them.
--          Ordered and owned rows, and suspects, are left to claim_guarded.sql.
-- Locks    the claimed rows, skipping locked ones. It waits only where Postgres itself does: two claims that reach a row
--          in the moment in which a third commits lock that version one after the other, for the length of a statement.
-- Index    idx_inbox_claim per lane, then the places of all rows in one scan: joined to them one by one, Postgres asks
--          the file system for the table's size each time. idx_inbox_suspect on a rescan. Sorts nothing.
--          Suspects are searched with "order by", not with "exists": before the first analyze, the planner used
--          idx_inbox_claim for that and walked the whole backlog (70 ms at 300,000 rows).
with lane as (
    select l.queue, l.priority, l.floor_at, l.floor_seq, l.n
    from unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::bigint[])
         with ordinality as l (queue, priority, floor_at, floor_seq, n)
    where not exists (select from holdfast.queues q where q.name = l.queue and q.paused_at is not null)
),
due as materialized (
    select row.ctid, lane.n, row.available_at, row.seq
    from lane
    cross join lateral (
        select i.ctid, i.available_at, i.seq
        from holdfast.inbox i
        where i.status = 'pending'
          and i.queue = lane.queue
          and i.priority = lane.priority
          and (i.available_at, i.seq) >= (lane.floor_at, lane.floor_seq)
          and i.available_at <= holdfast.clock()
          and holdfast.knows($6::text[], $7::jsonb, i.kind, i.payload_version)
          and i.crashes = 0
          and i.attempts < i.max_attempts
          and not i.ordered
          and not i.owned
        order by i.available_at, i.seq
        limit $5
        for update skip locked
    ) row
    limit $5
),
claimed as (
    update holdfast.inbox i
    set status = 'processing',
        claimed_by = $8,
        claimed_at = holdfast.clock(),
        lease_expires_at = holdfast.clock() + make_interval(secs => $9),
        lease_generation = i.lease_generation + 1,
        attempts = i.attempts + 1,
        fence = pg_catalog.nextval('holdfast.fence')
    where i.ctid = any (array(select d.ctid from due d))
    returning i.id, i.lease_generation, i.fence, i.attempts, i.max_attempts, i.kind, i.payload_version,
              i.payload::text as payload, i.queue, i.partition_key, i.headers::text as headers, i.idempotency_key,
              i.cancel_requested_at is not null as cancelled,
              case when isfinite(i.expires_at) then extract(epoch from i.expires_at - holdfast.clock())::float8 end as expires_in,
              i.priority::bigint << 56 | i.seq as rank,
              -- Not the difference of the times: before PostgreSQL 17, that of an infinite one is an error.
              least(pg_catalog.date_part('epoch', holdfast.clock()) - pg_catalog.date_part('epoch', i.available_at), 3155760000::float8) as waited
)
select c.*, null::json as about
from claimed c
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, pg_catalog.json_build_object(
       'at', holdfast.stamp(holdfast.clock()),
       'paused', array(select q.name from holdfast.queues q where q.paused_at is not null),
       'owned', array(select q.name from holdfast.queues q where q.owned),
       'snapshot', case when $10 then pg_current_snapshot()::text end,
       -- Read while the statement runs, so after its snapshot was taken: see model/floor.py.
       'running', case when $10 then array(select * from holdfast.running_transactions()) else '{}' end,
       'suspects', case when $10 then coalesce((
           select true
           from holdfast.inbox s
           where s.status = 'pending' and s.crashes > 0 and s.available_at <= holdfast.clock() and s.queue = any ($1::text[])
             and not exists (select from holdfast.queues q where q.name = s.queue and q.paused_at is not null)
             and holdfast.knows($6::text[], $7::jsonb, s.kind, s.payload_version)
             and s.attempts < s.max_attempts
           order by s.available_at, s.seq
           limit 1
       ), false) end,
       -- From the left edge, so only while the guarded claim is not in use: its indexes are nearly empty then.
       'guarded', case when $11 then coalesce((
           select true
           from unnest($1::text[], $2::smallint[]) as l (queue, priority)
           cross join lateral (
               select i.id
               from holdfast.inbox i
               where i.status = 'pending' and i.ordered and not i.owned
                 and i.queue = l.queue
                 and i.priority = l.priority
                 and i.available_at <= holdfast.clock()
               order by i.available_at, i.seq
               limit 1
           ) o
           limit 1
       ), false) end,
       'found', (select count(*) from due),
       'reached', last.n,
       'stops', case when last.n is not null then pg_catalog.json_build_array(
                    pg_catalog.json_build_array(last.n, holdfast.stamp(last.available_at), last.seq)) else '[]' end)
from (select) as always
left join (select n, available_at, seq from due offset $5 - 1 limit 1) as last on true
