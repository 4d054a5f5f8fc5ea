-- The workers and the inbox of the installation, without reading the inbox.
-- Returns  live workers, the share of their concurrency in use, jobs that they have ended so far; live and dead rows by
--          the server's statistics.
select count(*) filter (where w.live)::int as live_workers,
       coalesce(sum(w.running) filter (where w.live) / nullif(sum(w.hands) filter (where w.live), 0::float8), 0)::float8 as busy,
       coalesce(sum(w.ended) filter (where w.live), 0)::float8 as ended,
       (select coalesce(max(s.n_live_tup), 0) from pg_stat_user_tables s where s.relid = 'holdfast.inbox'::regclass) as live_rows,
       (select coalesce(max(s.n_dead_tup), 0) from pg_stat_user_tables s where s.relid = 'holdfast.inbox'::regclass) as dead_rows
from (
    select w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds' as live,
           (w.metadata ->> 'concurrency'::text)::float8 as hands,
           (w.metadata -> 'counters'::text ->> 'running'::text)::float8 as running,
           coalesce((w.metadata -> 'counters'::text ->> 'completed'::text)::float8, 0)
           + coalesce((w.metadata -> 'counters'::text ->> 'retried'::text)::float8, 0) as ended
    from holdfast.workers w
) w
