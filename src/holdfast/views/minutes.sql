-- What attempts did, and what waited, in steps of time.
-- Takes    $1 since so many seconds, rounded down to a minute; $2 the length of a step in seconds (0: one step for all);
--          $3 queue, $4 kind (null: all); $5 'queue' or 'kind': one row for each queue, or for each queue and kind; '': one
--          row for all.
-- Returns  at (when the step began), seconds (how much of it has passed), queue, kind, the sums, also of each of the 23
--          buckets of the histograms; depth, claim_age: the highest of each queue, then the sum and
--          the highest (null: not measured, or $4 is given).
-- Index    the primary key of minutes, from a time on. Sums are of floats, which are exact up to 2^53: those of bigint are numeric,
--          and take five times as long. The buckets are summed one by one: to unnest them takes five times as long, too.
with chosen as not materialized (
    select case when $2::float8 = 0::float8 then b.begin
                else date_bin(make_interval(secs => greatest($2::float8, 1::float8)), m.at, '1970-01-01Z') end as at,
           case when $5::text = '' then '' else m.queue end as of_queue, case when $5::text = 'kind' then m.kind else '' end as of_kind,
           m.queue, m.started, m.completed, m.failed, m.cancelled, m.expired, m.retried, m.dead, m.snoozed, m.parked, m.fenced,
           m.lease_losses, m.reconnects, m.run, m.pickup, m.run_sum, m.pickup_sum, m.depth, m.claim_age
    from (select date_trunc('minute', holdfast.clock() - make_interval(secs => $1::float8)) as begin) b
    join holdfast.minutes m on m.at >= b.begin
    where ($3::text is null or m.queue = $3::text)
      and ($4::text is null or m.kind = $4::text)
),
sums as (
    select c.at, c.of_queue, c.of_kind, pg_catalog.sum(c.started::float8)::bigint as started,
           pg_catalog.sum(c.completed::float8)::bigint as completed, pg_catalog.sum(c.failed::float8)::bigint as failed,
           pg_catalog.sum(c.cancelled::float8)::bigint as cancelled, pg_catalog.sum(c.expired::float8)::bigint as expired,
           pg_catalog.sum(c.retried::float8)::bigint as retried, pg_catalog.sum(c.dead::float8)::bigint as dead,
           pg_catalog.sum(c.snoozed::float8)::bigint as snoozed, pg_catalog.sum(c.parked::float8)::bigint as parked,
           pg_catalog.sum(c.fenced::float8)::bigint as fenced,
           pg_catalog.sum(c.lease_losses::float8)::bigint as lease_losses, pg_catalog.sum(c.reconnects::float8)::bigint as reconnects,
           pg_catalog.sum(c.run_sum) as run_sum, pg_catalog.sum(c.pickup_sum) as pickup_sum,
           array[pg_catalog.sum(c.run[1]::float8), pg_catalog.sum(c.run[2]::float8), pg_catalog.sum(c.run[3]::float8),
                 pg_catalog.sum(c.run[4]::float8), pg_catalog.sum(c.run[5]::float8), pg_catalog.sum(c.run[6]::float8),
                 pg_catalog.sum(c.run[7]::float8), pg_catalog.sum(c.run[8]::float8), pg_catalog.sum(c.run[9]::float8),
                 pg_catalog.sum(c.run[10]::float8), pg_catalog.sum(c.run[11]::float8), pg_catalog.sum(c.run[12]::float8),
                 pg_catalog.sum(c.run[13]::float8), pg_catalog.sum(c.run[14]::float8), pg_catalog.sum(c.run[15]::float8),
                 pg_catalog.sum(c.run[16]::float8), pg_catalog.sum(c.run[17]::float8), pg_catalog.sum(c.run[18]::float8),
                 pg_catalog.sum(c.run[19]::float8), pg_catalog.sum(c.run[20]::float8), pg_catalog.sum(c.run[21]::float8),
                 pg_catalog.sum(c.run[22]::float8), pg_catalog.sum(c.run[23]::float8)] as run,
           array[pg_catalog.sum(c.pickup[1]::float8), pg_catalog.sum(c.pickup[2]::float8), pg_catalog.sum(c.pickup[3]::float8),
                 pg_catalog.sum(c.pickup[4]::float8), pg_catalog.sum(c.pickup[5]::float8), pg_catalog.sum(c.pickup[6]::float8),
                 pg_catalog.sum(c.pickup[7]::float8), pg_catalog.sum(c.pickup[8]::float8), pg_catalog.sum(c.pickup[9]::float8),
                 pg_catalog.sum(c.pickup[10]::float8), pg_catalog.sum(c.pickup[11]::float8), pg_catalog.sum(c.pickup[12]::float8),
                 pg_catalog.sum(c.pickup[13]::float8), pg_catalog.sum(c.pickup[14]::float8), pg_catalog.sum(c.pickup[15]::float8),
                 pg_catalog.sum(c.pickup[16]::float8), pg_catalog.sum(c.pickup[17]::float8), pg_catalog.sum(c.pickup[18]::float8),
                 pg_catalog.sum(c.pickup[19]::float8), pg_catalog.sum(c.pickup[20]::float8), pg_catalog.sum(c.pickup[21]::float8),
                 pg_catalog.sum(c.pickup[22]::float8), pg_catalog.sum(c.pickup[23]::float8)] as pickup
    from chosen c
    group by c.at, c.of_queue, c.of_kind
),
waiting as (
    select q.at, q.of_queue, pg_catalog.sum(q.depth)::bigint as depth, pg_catalog.max(q.claim_age) as claim_age
    from (
        select c.at, c.of_queue, c.queue, pg_catalog.max(c.depth) as depth, pg_catalog.max(c.claim_age) as claim_age
        from chosen c
        where c.depth is not null or c.claim_age is not null -- few rows have them, and the others need not be grouped
        group by c.at, c.of_queue, c.queue
    ) q
    group by q.at, q.of_queue
)
select s.at,
       case when $2::float8 = 0::float8 then extract(epoch from holdfast.clock() - s.at)::float8
            else least($2::float8, extract(epoch from holdfast.clock() - s.at)::float8) end as seconds,
       s.of_queue as queue, s.of_kind as kind, s.started, s.completed, s.failed, s.cancelled, s.expired, s.retried, s.dead,
       s.snoozed, s.parked, s.fenced, s.lease_losses, s.reconnects, s.run_sum, s.pickup_sum,
       s.run, s.pickup, w.depth, w.claim_age
from sums s
left join waiting w on w.at = s.at and w.of_queue = s.of_queue and s.of_kind = ''
order by s.at, s.of_queue, s.of_kind
