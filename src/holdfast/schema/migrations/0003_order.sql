-- Order per key: the guarded claim.
--
-- A key is (queue, partition_key). Its head is its unfinished row of the lowest seq; a row with "skips" that waits to
-- become due is passed over. A row of an ordered key is claimed when it is the head and nothing of the key is in
-- processing; a due row that is not is parked as "blocked", which takes it out of the claim's index.
--
-- Whoever decides about a key holds its lock, a transaction-scoped advisory lock that is only ever tried, and decides
-- with a snapshot taken after it got the lock. That is why these are functions: each of their statements has a snapshot of
-- its own. So either the one who parks a row sees that the head has ended, or the one who looks after that end sees the
-- parked row. Producers and endings take no lock. The unique index on processing rows is the last guard.

create function holdfast.key_lock(queue text, key text) returns bigint
    language sql immutable parallel safe
    as $$ select hashtextextended(key, hashtextextended('holdfast.key.' || queue, 0)) $$;

-- Claim due rows of the lanes that are the heads of their keys, and the blocked heads of keys that were just vacated.
--
-- Takes    lanes: queue, priority, bucket (null: rows that nobody owns), floor; keys whose row has just ended here; how
--          many candidates to look at, how many rows to take; suspects: take one row that is to run alone, of the
--          lanes' queues, instead; the rest as in claim.sql.
-- Returns  as claim.sql, then: is the claim ordered, how many candidates were seen and how many of them parked, the
--          last candidate's lane and position. A row with a lane but no id is a candidate that was left as it was
--          (somebody else holds its key, or there was no room): the floor must not pass it.
-- Locks    rows and keys, skipping what is locked; never waits.
-- Index    idx_inbox_ordered_claim or idx_inbox_bucket_claim per lane; idx_inbox_key and the index of processing
--          keys per key; then the primary key.
create function holdfast.claim_guarded(
    lane_queues text[], lane_priorities smallint[], lane_buckets int[], lane_ats timestamptz[], lane_seqs bigint[],
    vacated_queues text[], vacated_keys text[], scan int, take int, suspects boolean, kinds text[], versions jsonb,
    worker text, lease float8, rescan boolean
) returns table (
    at timestamptz, paused text[], snapshot text, lone boolean, running bigint[], guarded boolean, owned text[],
    lane int, available_at timestamptz, seq bigint, id uuid, lease_generation bigint, fence bigint, attempts int,
    max_attempts int, kind text, payload_version int, payload text, queue text, partition_key text, headers text,
    idempotency_key text, cancelled boolean, ordered boolean,
    seen int, parked int, end_lane int, end_at timestamptz, end_seq bigint
)
    language plpgsql volatile
    as $$
#variable_conflict use_column
declare
    c_ids     uuid[];
    c_lanes   int[];
    c_ats     timestamptz[];
    c_seqs    bigint[];
    k_queues  text[];
    k_keys    text[];
    loose     uuid[];
    h_ids     uuid[];
    h_fates   text[];
    taken     uuid[];
    asides    uuid[];
begin
    at := holdfast.clock();
    select array_agg(q.name) filter (where q.paused_at is not null), array_agg(q.name) filter (where q.owned)
    into paused, owned
    from holdfast.queues q
    where q.paused_at is not null or q.owned;

    -- 1. Candidates, in the order of the index; their keys, as far as they are free.
    with candidate as materialized (
        select l.n, row.*
        from unnest(lane_queues, lane_priorities, lane_ats, lane_seqs)
             with ordinality as l (queue, priority, floor_at, floor_seq, n)
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where lane_buckets[l.n] is null
              and i.status = 'pending' and i.ordered and not i.owned
              and i.queue = l.queue
              and i.priority = l.priority
              and (i.available_at, i.seq) >= (l.floor_at, l.floor_seq)
              and i.available_at <= holdfast.clock()
              and holdfast.knows(kinds, versions, i.kind, i.payload_version)
              and i.crashes = 0
              and i.attempts < i.max_attempts
            order by i.available_at, i.seq
            limit scan
            for update skip locked
        ) row
        where not suspects and l.queue <> all (coalesce(paused, '{}'))
        limit scan
    ),
    owned_candidate as materialized (
        select l.n, row.*
        from unnest(lane_queues, lane_priorities, lane_ats, lane_seqs)
             with ordinality as l (queue, priority, floor_at, floor_seq, n)
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where i.status = 'pending' and i.owned
              and i.queue = l.queue
              and i.partition_bucket = lane_buckets[l.n]
              and i.priority = l.priority
              and (i.available_at, i.seq) >= (l.floor_at, l.floor_seq)
              and i.available_at <= holdfast.clock()
              and holdfast.knows(kinds, versions, i.kind, i.payload_version)
              and i.crashes = 0
              and i.attempts < i.max_attempts
            order by i.available_at, i.seq
            limit scan
            for update skip locked
        ) row
        where not suspects and lane_buckets[l.n] is not null and l.queue <> all (coalesce(paused, '{}'))
        limit scan - (select count(*) from candidate)
    ),
    suspect as materialized (
        select 0::bigint, i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
        from holdfast.inbox i
        where suspects
          and i.status = 'pending'
          and i.crashes > 0
          and i.available_at <= holdfast.clock()
          and i.queue = any (lane_queues)
          and i.queue <> all (coalesce(paused, '{}'))
          and holdfast.knows(kinds, versions, i.kind, i.payload_version)
          and i.attempts < i.max_attempts
        order by i.available_at, i.seq
        limit 1
        for update skip locked
    ),
    found as materialized (
        select * from candidate union all select * from owned_candidate union all select * from suspect
    ),
    free_key as materialized (
        select k.queue, k.key
        from (
            select f.queue, f.partition_key from found f where f.ordered
            union
            select v.queue, v.key from unnest(vacated_queues, vacated_keys) as v (queue, key)
        ) as k (queue, key)
        where pg_try_advisory_xact_lock(holdfast.key_lock(k.queue, k.key))
    )
    select array_agg(f.id), array_agg(f.n::int), array_agg(f.available_at), array_agg(f.seq),
           array_agg(f.id) filter (where not f.ordered),
           (select array_agg(k.queue) from free_key k), (select array_agg(k.key) from free_key k),
           case when rescan then pg_current_snapshot()::text end
    into c_ids, c_lanes, c_ats, c_seqs, loose, k_queues, k_keys, snapshot
    from found f;

    -- Read after the snapshot was taken: see model/floor.py.
    if rescan then
        running := array(
            select a.backend_xid::text::bigint
            from pg_stat_get_activity(null) a
            where a.backend_xid is not null
              and a.datid = (select own.datid from pg_stat_get_activity(pg_backend_pid()) own)
              and a.pid <> pg_backend_pid()
        ) || array(
            select x.transaction::text::bigint
            from pg_prepared_xact() x
            where x.dbid = (select own.datid from pg_stat_get_activity(pg_backend_pid()) own)
        );
    end if;

    -- 2. The heads of the keys that are ours now, by a snapshot taken after their locks; none while a row is in processing.
    if k_queues is not null then
        select array_agg(h.id), array_agg(h.fate) into h_ids, h_fates
        from (
            select head.id,
                   case when head.id in (select c.id from unnest(c_ids) as c (id)) then 'take'
                        when head.status::text = 'pending' then 'leave'
                        when head.available_at <= holdfast.clock()
                             and holdfast.knows(kinds, versions, head.kind, head.payload_version)
                             and head.crashes = 0
                             and head.attempts < head.max_attempts
                             and head.queue <> all (coalesce(paused, '{}'))
                             and (not head.owned or (head.queue, head.partition_bucket) in (
                                 select l.queue, l.bucket from unnest(lane_queues, lane_buckets) as l (queue, bucket)))
                        then 'take' else 'free' end as fate
            from unnest(k_queues, k_keys) as k (queue, key)
            cross join lateral (
                select i.id, i.status, i.available_at, i.kind, i.payload_version, i.crashes, i.attempts, i.max_attempts,
                       i.owned, i.queue, i.partition_bucket
                from holdfast.inbox i
                where i.ordered and i.status in ('pending', 'processing', 'blocked')
                  and i.queue = k.queue
                  and i.partition_key = k.key
                  and not (i.skips and i.status::text = 'pending' and i.available_at > holdfast.clock())
                order by i.seq
                limit 1
            ) head
            where head.status::text <> 'processing'
              and not exists (
                  select from holdfast.inbox p
                  where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key)
        ) h;
    end if;

    -- 3. Take heads and rows without order, as many as there is room for. A head that somebody has locked is left.
    with wanted as materialized (
        select h.id from unnest(h_ids, h_fates) as h (id, fate) where h.fate = 'take'
        union all
        select l.id from unnest(loose) as l (id)
        limit take
    ),
    lockable as materialized (
        select i.id
        from wanted w
        join holdfast.inbox i on i.id = any (array[w.id])
        where i.status::text in ('pending', 'blocked')
        for update of i skip locked
    )
    select coalesce(array_agg(l.id), '{}') into taken from lockable l;

    -- 4. What is due but not the head of its key waits, out of the way.
    with put_aside as materialized (
        select i.id
        from unnest(c_ids) as c (id)
        join holdfast.inbox i on i.id = any (array[c.id])
        where i.ordered
          and (i.queue, i.partition_key) in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
          and i.id not in (select h.id from unnest(h_ids) as h (id))
    ),
    blocked as (
        update holdfast.inbox i
        set status = 'blocked'
        from put_aside p
        where i.id = any (array[p.id])
        returning i.id
    )
    select coalesce(array_agg(b.id), '{}') into asides from blocked b;

    -- 5. A blocked head that we do not take is everyone's.
    with free as materialized (
        select i.id
        from unnest(h_ids, h_fates) as h (id, fate)
        join holdfast.inbox i on i.id = any (array[h.id])
        where h.fate <> 'leave'
          and i.status::text = 'blocked'
          and i.id not in (select t.id from unnest(taken) as t (id))
        for update of i skip locked
    )
    update holdfast.inbox i
    set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
    from free f
    where i.id = any (array[f.id]);

    seen := coalesce(cardinality(c_ids), 0);
    parked := cardinality(asides);
    if seen > 0 then
        end_lane := c_lanes[seen];
        end_at := greatest(c_ats[seen], timestamptz '0001-01-01 00:00:00+00');
        end_seq := c_seqs[seen];
    end if;

    return query
    with claimed as (
        update holdfast.inbox i
        set status = 'processing',
            claimed_by = worker,
            claimed_at = holdfast.clock(),
            lease_expires_at = holdfast.clock() + make_interval(secs => lease),
            lease_generation = i.lease_generation + 1,
            attempts = i.attempts + 1,
            fence = nextval('holdfast.fence')
        from unnest(taken) as t (id)
        where i.id = any (array[t.id])
        returning i.*
    ),
    left_alone as (
        select c.lane, c.at, c.seq
        from unnest(c_ids, c_lanes, c_ats, c_seqs) as c (id, lane, at, seq)
        where c.id not in (select t.id from unnest(taken || asides) as t (id))
    )
    select at, paused, snapshot, null::boolean, running, null::boolean, owned, o.*, seen, parked, end_lane, end_at, end_seq
    from (select) as always
    left join (
        select 0 as lane, c.available_at, c.seq, c.id, c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind,
               c.payload_version, c.payload::text, c.queue, c.partition_key, c.headers::text, c.idempotency_key,
               c.cancel_requested_at is not null, c.ordered
        from claimed c
        union all
        select l.lane, greatest(l.at, timestamptz '0001-01-01 00:00:00+00'), l.seq, null, null, null, null, null, null, null,
               null, null, null, null, null, null, null
        from left_alone l
    ) o on true;
end
$$;

-- Make blocked heads pending again: of keys whose row has ended and whose next one nobody here takes.
-- Returns how many. Keys that somebody else holds are left: whoever holds one looks after it.
create function holdfast.release_heads(queues text[], keys text[]) returns int
    language plpgsql volatile
    as $$
declare
    k_queues text[];
    k_keys   text[];
    released int;
begin
    select array_agg(k.queue), array_agg(k.key) into k_queues, k_keys
    from (select distinct u.queue, u.key from unnest(queues, keys) as u (queue, key)) k
    where pg_try_advisory_xact_lock(holdfast.key_lock(k.queue, k.key));
    with head as materialized (
        select l.id
        from unnest(k_queues, k_keys) as k (queue, key)
        cross join lateral (
            select i.id, i.status
            from holdfast.inbox i
            where i.ordered and i.status in ('pending', 'processing', 'blocked')
              and i.queue = k.queue
              and i.partition_key = k.key
              and not (i.skips and i.status::text = 'pending' and i.available_at > holdfast.clock())
            order by i.seq
            limit 1
        ) h
        join holdfast.inbox l on l.id = any (array[h.id])
        where h.status::text = 'blocked'
          and l.status::text = 'blocked'
          and not exists (
              select from holdfast.inbox p
              where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key)
        for update of l skip locked
    )
    update holdfast.inbox i
    set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
    from head
    where i.id = any (array[head.id]);
    get diagnostics released = row_count;
    return released;
end
$$;
