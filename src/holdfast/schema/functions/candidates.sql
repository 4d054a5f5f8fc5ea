-- Due rows that are ordered or owned, lane by lane, each from its start on, in the order of the index; at most "look".
-- Takes    the lanes; the buckets that this worker owns, in the order in which to scan them; paused queues.
-- Returns  the rows; on a rescan also the snapshot of the scan.
-- Locks    nothing.
-- Index    idx_inbox_ordered_claim or idx_inbox_bucket_claim per lane.
create or replace function holdfast.candidates(
    lanes holdfast.lane[], own holdfast.bucket_of_queue[], paused text[], look int, kinds text[], versions jsonb, rescan boolean,
    out candidates holdfast.candidate[], out snapshot text
)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
begin
    with lane as materialized (
        select l.n::int, l.queue, l.priority, l.owned, l.start_at, l.start_seq
        from unnest(lanes) with ordinality as l (queue, priority, owned, start_at, start_seq, hint_at, hint_seq, n)
        where l.queue <> all (paused)
    ),
    shared as materialized (
        select l.n, row.id, row.available_at, row.seq, row.queue, row.partition_key, row.ordered
        from lane l
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where i.status = 'pending' and i.ordered and not i.owned
              and i.queue = l.queue
              and i.priority = l.priority
              and (i.available_at, i.seq) >= (l.start_at, l.start_seq)
              and i.available_at <= holdfast.clock()
              and holdfast.knows(kinds, versions, i.kind, i.payload_version)
              and i.crashes = 0
              and i.attempts < i.max_attempts
            order by i.available_at, i.seq
            limit look
        ) row
        where not l.owned
        limit look
    ),
    owned as (
        select l.n, row.id, row.available_at, row.seq, row.queue, row.partition_key, row.ordered
        from lane l
        join unnest(own) as o (queue, bucket) on o.queue = l.queue
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where i.status = 'pending' and i.owned
              and i.queue = l.queue
              and i.partition_bucket = o.bucket
              and i.priority = l.priority
              and (i.available_at, i.seq) >= (l.start_at, l.start_seq)
              and i.available_at <= holdfast.clock()
              and holdfast.knows(kinds, versions, i.kind, i.payload_version)
              and i.crashes = 0
              and i.attempts < i.max_attempts
            order by i.available_at, i.seq
            limit look
        ) row
        where l.owned
        limit look - (select count(*) from shared)
    )
    select array_agg(row(f.id, f.n, f.available_at, f.seq, f.queue, f.partition_key, f.ordered)::holdfast.candidate),
           case when rescan then pg_current_snapshot()::text end
    into candidates, snapshot
    from (select * from shared union all select * from owned) f;
end
$$;
