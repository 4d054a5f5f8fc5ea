-- The heads of these keys, except keys with a row in processing; and the keys of which nothing waits.
--
-- Called after the keys are locked, and VOLATILE, so that it uses a snapshot taken after that: an older one may miss the end
-- of a row, or a row that comes before the head that it sees.
--
-- A row with "skips" waits for its retry only if it is due later than now, not later than the start of this statement:
-- another transaction may have unblocked it since then.
-- Index    idx_inbox_key and the index of processing keys, per key. Each key is looked up in a LATERAL with a limit: an
--          "exists" that is planned while the table is small reads the whole index, and a session keeps that plan (97 ms
--          instead of 0.5 with 100,000 blocked rows).
create or replace function holdfast.heads(
    keys holdfast.queue_key[], candidates holdfast.candidate[], lanes holdfast.lane[], own holdfast.bucket_of_queue[],
    paused text[], kinds text[], versions jsonb,
    out heads holdfast.head[], out empty holdfast.queue_key[]
)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
begin
    select array_agg(row(k.head, k.reach)::holdfast.head) filter (where k.head is not null and not k.at_work),
           array_agg(row(k.queue, k.key)::holdfast.queue_key) filter (where k.head is null)
    into heads, empty
    from (
        select k.queue, k.key, head.id as head, processing.it is not null as at_work,
               case when head.id in (select c.id from unnest(candidates) as c) then 'candidate'
                    when head.status::text = 'pending' and not head.owned and not exists (
                        select from unnest(lanes) as l
                        where not l.owned
                          and l.queue = head.queue
                          and l.priority = head.priority
                          and (head.available_at, head.seq) < (l.hint_at, l.hint_seq)) then 'ahead'
                    when head.available_at <= holdfast.clock()
                         and holdfast.knows(kinds, versions, head.kind, head.payload_version)
                         and head.crashes = 0
                         and head.attempts < head.max_attempts
                         and head.queue <> all (paused)
                         and (not head.owned
                              or (head.queue, head.partition_bucket) in (select o.queue, o.bucket from unnest(own) as o))
                    then 'next' else 'not ours' end as reach
        from unnest(keys) as k
        left join lateral (
            select i.id, i.status, i.priority, i.available_at, i.seq, i.kind, i.payload_version, i.crashes, i.attempts,
                   i.max_attempts, i.owned, i.queue, i.partition_bucket
            from holdfast.inbox i
            where i.ordered and i.status in ('pending', 'blocked')
              and i.queue = k.queue
              and i.partition_key = k.key
              and not (i.skips and i.status::text = 'pending'
                       and i.available_at > greatest(holdfast.clock(), clock_timestamp()))
            order by i.seq
            limit 1
        ) head on true
        left join lateral (
            select true as it
            from holdfast.inbox p
            where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
            limit 1
        ) processing on true
    ) k;
end
$$;
