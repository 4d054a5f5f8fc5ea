-- Workers that do not hear wake-ups
-- It costs latency only: up to --poll. Expected with --no-notify or a pooler; otherwise see the worker's log.
select id, metadata ->> 'host' as host, metadata -> 'queues' as queues, now() - started_at as up, now() - last_seen_at as silent
from holdfast.workers
where status = 'alive'
  and last_seen_at > now() - interval '30 seconds'
  and (metadata -> 'counters' ->> 'listening') is distinct from 'true'
order by id
