-- Due jobs that no live worker can run, by queue, kind and version, why, and which application declared the kind. It
-- counts them all, for `holdfast stats`; workers ask kinds/unknown.sql, which costs little.
select i.queue, coalesce(i.kind, '(none)') as kind, i.payload_version as version, count(*) as rows, min(i.available_at) as since,
       case when i.kind is null then 'the payload has no "type"'
            when not exists (
                select from holdfast.workers w
                where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
                  and w.metadata -> 'queues'::text ? i.queue) then 'no live worker serves this queue'
            when not exists (
                select from holdfast.workers w
                where w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
                  and w.metadata -> 'queues'::text ? i.queue and w.metadata -> 'kinds'::text ? i.kind) then 'no live worker knows this kind'
            else 'no live worker knows this version' end as reason,
       (select k.app from holdfast.kinds k where k.kind = i.kind) as app
from holdfast.inbox i
where i.status = 'pending'
  and i.available_at <= holdfast.clock()
  and not starts_with(i.queue, 'hold.')          -- for webhook endpoints that are paused or disabled
  and not exists (
      select from holdfast.workers w
      where w.status = 'alive'
        and w.last_seen_at > holdfast.clock() - interval '30 seconds'
        and w.metadata -> 'queues'::text ? i.queue
        and i.payload_version between (w.metadata -> 'kinds'::text -> i.kind ->> 0)::int and (w.metadata -> 'kinds'::text -> i.kind ->> 1)::int)
group by 1, 2, 3, i.kind, i.queue
order by rows desc
limit 50
