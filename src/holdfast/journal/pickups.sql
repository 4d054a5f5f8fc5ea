-- How long due jobs waited for their claim, per queue and minute: for jumps.
-- Takes    $1 since, $2 before.
-- Returns  queue, at, the mean in seconds, attempts that started.
-- Index    the primary key of minutes.
select m.queue, m.at, pg_catalog.sum(m.pickup_sum) / pg_catalog.sum(m.started) as mean, pg_catalog.sum(m.started)::bigint as started
from holdfast.minutes m
where m.at >= $1::timestamptz and m.at < $2::timestamptz and m.started > 0
group by m.queue, m.at
order by m.queue, m.at
