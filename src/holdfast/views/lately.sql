-- What ended lately, and what became a dead letter, by queue.
-- Takes    $1 times in seconds, $2 the most pages of the archive to read, $3 the most dead letters to count.
-- Returns  queue, status, seconds, jobs; and a row without a queue whose "reach" says how far back the archive was read
--          (null: far enough). If that is less than "seconds", the counts are those of "reach" seconds.
-- Index    none of the archive (see holdfast.ended_lately); idx_inbox_dead.
select l.queue, l.status, l.seconds, pg_catalog.sum(l.jobs)::bigint as jobs, pg_catalog.max(l.reach) as reach
from holdfast.ended_lately($1::float8[], $2::int) l
group by l.queue, l.status, l.seconds
union all
select d.queue, 'dead_letter', w.seconds, pg_catalog.count(*), null::float8
from pg_catalog.unnest($1::float8[]) as w (seconds)
cross join lateral (
    select i.queue
    from holdfast.inbox i
    where i.status = 'dead_letter' and i.dead_at > holdfast.clock() - make_interval(secs => w.seconds)
    limit $3
) d
group by d.queue, w.seconds
