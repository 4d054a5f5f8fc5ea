-- The workers that are live on each owned queue, with what each has said about its ring.
-- Returns  queue, worker, seconds since its last heartbeat and since its start, the digest of its ring (null: it does not say).
select q.name as queue, w.id as worker, extract(epoch from holdfast.clock() - w.last_seen_at)::float8 as silent,
       extract(epoch from holdfast.clock() - w.started_at)::float8 as up,
       case when jsonb_typeof(w.metadata -> 'counters' -> 'ring') = 'number' then nullif((w.metadata -> 'counters' ->> 'ring')::bigint, 0) end as ring,
       (select min(extract(epoch from holdfast.clock() - o.last_seen_at)::float8)
        from holdfast.workers o
        where (o.status <> 'alive' or o.last_seen_at <= holdfast.clock() - interval '30 seconds') and o.metadata -> 'queues' ? q.name) as left
from holdfast.queues q
join holdfast.workers w
  on w.status = 'alive' and w.last_seen_at > holdfast.clock() - interval '30 seconds' and w.metadata -> 'queues' ? q.name
where q.owned and not starts_with(q.name, 'out.')          -- routes' claims have views of their own
order by 1, 2
