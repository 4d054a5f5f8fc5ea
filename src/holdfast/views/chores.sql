-- The chores: when each ran last, what that run did, and how much waits for it.
-- Takes    $1 how far to count, so that the cost is bounded.
-- Returns  name, ago (seconds), every (seconds between two runs), rows, more (whether rows were left), error, backlog (null:
--          not counted), oldest (for sweep, expire and forget: seconds that the oldest row of the backlog has waited).
-- Index    those of the chores.
with expired as materialized (
    select i.lease_expires_at as at
    from holdfast.inbox i
    where i.status = 'processing' and i.lease_expires_at < holdfast.clock()
    order by i.lease_expires_at
    limit $1
),
late as materialized (
    select i.expires_at as at
    from holdfast.inbox i
    where i.expires_at is not null and i.status in ('pending', 'blocked') and i.expires_at < holdfast.clock()
    order by i.expires_at
    limit $1
),
keys as materialized (
    select d.expires_at as at from holdfast.dedupe d where d.expires_at < holdfast.clock() order by d.expires_at limit $1
),
horizon as materialized (
    select holdfast.clock() - make_interval(secs => holdfast.setting('once_horizon')::float8) as once,
           holdfast.setting('archive_days')::int as archive_days
),
backlog as (
    select 'sweep' as name, (select count(*) from expired) as rows, (select min(e.at) from expired e) as since
    union all
    select 'expire', (select count(*) from late), (select min(l.at) from late l)
    union all
    select 'bury', (select count(*) from (select from holdfast.inbox i
                                          where i.status = 'pending' and i.attempts >= i.max_attempts limit $1) spent)
                   + (select count(*) from (select from holdfast.inbox i
                                            where i.status = 'dead_letter' and i.dead_at is null limit $1) rough), null
    union all
    select 'archive', (select count(*) from (select from holdfast.inbox i
                                             where i.status in ('completed', 'failed') limit $1) finished), null
    union all
    select 'partitions', (select count(*) from generate_series(0, 7) n
                          where to_regclass('holdfast.' || to_char((holdfast.clock() at time zone 'UTC') + make_interval(days => n),
                                                                   '"archive_"YYYYMMDD')) is null), null
    union all
    select 'retention', (select count(*) from (select d.finished_at, d.keep_days from holdfast.archive_default d limit $1) d
                         cross join horizon h
                         where d.finished_at < holdfast.clock() - make_interval(days => coalesce(d.keep_days, h.archive_days) + 1))
                        + (select count(*) from holdfast.due_partitions((select h.archive_days from horizon h))), null
    union all
    select 'forget', (select count(*) from keys)
                     + (select count(*) from (select from holdfast.once o
                                              where o.done_at < (select h.once from horizon h) limit $1) finished)
                     + (select count(*) from (select from holdfast.once o
                                              where coalesce(o.done_at, 'infinity') = 'infinity'
                                                and o.entered_at < (select h.once from horizon h)
                                                and not exists (select from holdfast.inbox i where i.id = o.job_id)
                                              limit $1) entered),
           (select min(k.at) from keys k)
)
select coalesce(c.name, b.name) as name, extract(epoch from holdfast.clock() - c.ran_at)::float8 as ago,
       (c.result ->> 'every'::text)::float8 as every, (c.result ->> 'rows'::text)::int as rows,
       coalesce((c.result ->> 'more'::text)::boolean, false) as more, c.result ->> 'error'::text as error,
       b.rows as backlog, extract(epoch from holdfast.clock() - b.since)::float8 as oldest
from holdfast.chores c
full join backlog b on b.name = c.name
order by 1
