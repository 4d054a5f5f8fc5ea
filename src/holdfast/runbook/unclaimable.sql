-- Due jobs that no live worker can run
-- Start a worker of this queue whose code has this task. The jobs lose no attempts.
select i.queue, i.kind, i.payload_version, count(*) as jobs, min(i.available_at) as since
from holdfast.inbox i
where i.status = 'pending'
  and i.available_at <= now()
  and not exists (
      select from holdfast.workers w
      where w.status = 'alive'
        and w.last_seen_at > now() - interval '30 seconds'
        and w.metadata -> 'queues' ? i.queue
        and i.payload_version between (w.metadata -> 'kinds' -> i.kind ->> 0)::int
                                  and (w.metadata -> 'kinds' -> i.kind ->> 1)::int)
group by i.queue, i.kind, i.payload_version
order by jobs desc
