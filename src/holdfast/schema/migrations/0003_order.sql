-- Order per key: the guarded claim.
--
-- A key is (queue, partition_key). Its head is its waiting row of the lowest seq; a row with "skips" that is due later is
-- passed over. A row of an ordered key is claimed when it is the head and nothing of the key is in processing.
--
-- Whoever decides about a key holds its lock, a transaction-scoped advisory lock that is only ever tried, and decides
-- with a snapshot taken after it got the lock. That is why these are functions: each of their statements has a snapshot of
-- its own. Producers and endings take no lock: whoever ends a row looks at its key afterwards. So of one who passes a row
-- by, because the head is at work, and one who looks at the key after that head has ended, the second sees the row, or the
-- first sees the end. The unique index on processing rows is the last guard.
--
-- A due row that is not the head is passed by the floor of the worker that met it, and found through its key when its turn
-- comes. One that still waits when a patrol meets it again is parked as "blocked", which takes it out of the claim's index.

create function holdfast.key_lock(queue text, key text) returns bigint
    language sql immutable parallel safe
    as $$ select hashtextextended(key, hashtextextended('holdfast.key.' || queue, 0)) $$;

-- Claim due rows of the lanes that are the heads of their keys, and the next rows of keys that have fallen vacant.
--
-- Takes    lanes: queue, priority, of owned rows?, where to start, and the hint up to which rows have been passed before;
--          the buckets that are ours, in the order in which they have their turn; keys of which a row has just ended here, and whether rows of theirs have been passed (else only
--          parked ones matter); how many rows to look at, of how many keys, and how
--          many to take; suspects: take one row that is to run alone, of the lanes' queues, instead; park: park what is
--          not the head of its key; the rest as in claim.sql.
-- Returns  as claim.sql, then: is the claim ordered; how many rows were looked at and parked; lane and position of the last;
--          which of the vacated keys somebody else holds: to be asked about again, since that one may have looked before
--          the row had ended; the keys of which rows were passed, and those of which nothing
--          waits. A row with a lane but no id was left as it was (somebody else holds its key, or there was
--          no room): the floor must not pass it.
-- Locks    keys and rows, skipping what is locked; never waits.
-- Index    idx_inbox_ordered_claim or idx_inbox_bucket_claim per lane, idx_inbox_key and the index of processing keys per
--          key, then the primary key.
create function holdfast.claim_guarded(
    lane_queues text[], lane_priorities smallint[], lane_owned boolean[], lane_ats timestamptz[], lane_seqs bigint[],
    hint_ats timestamptz[], hint_seqs bigint[], own_queues text[], own_buckets int[], vacated_queues text[], vacated_keys text[], vacated_passed boolean[], look int, most_keys int, take int,
    suspects boolean, park boolean, kinds text[], versions jsonb, worker text, lease float8, rescan boolean
) returns table (
    at timestamptz, paused text[], snapshot text, lone boolean, running bigint[], guarded boolean, owned text[],
    lane int, available_at timestamptz, seq bigint, id uuid, lease_generation bigint, fence bigint, attempts int,
    max_attempts int, kind text, payload_version int, payload text, queue text, partition_key text, headers text,
    idempotency_key text, cancelled boolean, ordered boolean,
    looked int, parked int, end_lane int, end_at timestamptz, end_seq bigint, busy int[],
    passed_queues text[], passed_keys text[], empty_queues text[], empty_keys text[]
)
    language plpgsql volatile
    set enable_hashjoin = on             -- for the arrays below; a worker's session has it off for the tables' sake
    set plan_cache_mode = force_generic_plan
    as $$
#variable_conflict use_column
declare
    c_ids     uuid[];        -- candidates
    c_lanes   int[];
    c_ats     timestamptz[];
    c_seqs    bigint[];
    c_queues  text[];
    c_keys    text[];
    c_ordered boolean[];
    k_queues  text[];        -- keys that are ours to decide about
    k_keys    text[];
    h_ids     uuid[];        -- their heads
    h_states  text[];
    e_queues  text[];        -- keys of which nothing waits
    e_keys    text[];
    taken     uuid[];
begin
    at := holdfast.clock();
    parked := 0;
    select array_agg(q.name) filter (where q.paused_at is not null), array_agg(q.name) filter (where q.owned)
    into paused, owned
    from holdfast.queues q
    where q.paused_at is not null or q.owned;

    -- 1. Candidates, in the order of the index; their keys, as far as they are free.
    with candidate as materialized (
        select l.n, row.id, row.available_at, row.seq, row.queue, row.partition_key, row.ordered
        from unnest(lane_queues, lane_priorities, lane_ats, lane_seqs)
             with ordinality as l (queue, priority, start_at, start_seq, n)
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where not lane_owned[l.n]
              and i.status = 'pending' and i.ordered and not i.owned
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
        where not suspects and l.queue <> all (coalesce(paused, '{}'))
        limit look
    ),
    owned_candidate as materialized (
        select l.n, row.id, row.available_at, row.seq, row.queue, row.partition_key, row.ordered
        from unnest(lane_queues, lane_priorities, lane_ats, lane_seqs)
             with ordinality as l (queue, priority, start_at, start_seq, n)
        join unnest(own_queues, own_buckets) as own (queue, bucket) on own.queue = l.queue
        cross join lateral (
            select i.id, i.available_at, i.seq, i.queue, i.partition_key, i.ordered
            from holdfast.inbox i
            where i.status = 'pending' and i.owned
              and i.queue = l.queue
              and i.partition_bucket = own.bucket
              and i.priority = l.priority
              and (i.available_at, i.seq) >= (l.start_at, l.start_seq)
              and i.available_at <= holdfast.clock()
              and holdfast.knows(kinds, versions, i.kind, i.payload_version)
              and i.crashes = 0
              and i.attempts < i.max_attempts
            order by i.available_at, i.seq
            limit look
        ) row
        where not suspects and lane_owned[l.n] and l.queue <> all (coalesce(paused, '{}'))
        limit look - (select count(*) from candidate)
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
    ),
    found as materialized (
        select f.n, f.id, f.available_at, f.seq, f.queue, f.partition_key, f.ordered, row_number() over () as place
        from (
            select * from candidate union all select * from owned_candidate union all select * from suspect
        ) as f (n, id, available_at, seq, queue, partition_key, ordered)
    ),
    wanted_key as materialized (
        select v.queue, v.key
        from unnest(vacated_queues, vacated_keys, vacated_passed) as v (queue, key, passed)
        where v.passed or exists (
            select from holdfast.inbox b where b.status = 'blocked' and b.queue = v.queue and b.partition_key = v.key)
        union
        (
            select f.queue, f.partition_key
            from found f
            where f.ordered
            group by f.queue, f.partition_key
            order by min(f.place)
            limit most_keys
        )
    ),
    free_key as (
        select array_agg(k.queue) as queues, array_agg(k.key) as keys
        from wanted_key k
        where pg_try_advisory_xact_lock(holdfast.key_lock(k.queue, k.key))
    )
    select array_agg(f.id), array_agg(f.n::int), array_agg(f.available_at), array_agg(f.seq), array_agg(f.queue),
           array_agg(f.partition_key), array_agg(f.ordered),
           (select k.queues from free_key k), (select k.keys from free_key k),
           case when rescan then pg_current_snapshot()::text end
    into c_ids, c_lanes, c_ats, c_seqs, c_queues, c_keys, c_ordered, k_queues, k_keys, snapshot
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

    -- 2. The heads of those keys, by a snapshot taken after their locks; none while a row is in processing. A head that is no
    -- candidate is "next" when we passed it before, or it is parked: nobody will meet it on his way. A row that skips waits
    -- for its retry only if it is due later than now, not than when this statement began: another may have released it since.
    if k_queues is not null then
        select array_agg(k.head) filter (where not k.at_work), array_agg(k.state) filter (where not k.at_work),
               array_agg(k.queue) filter (where k.head is null), array_agg(k.key) filter (where k.head is null)
        into h_ids, h_states, e_queues, e_keys
        from (
            select k.queue, k.key, head.id as head,
                   head.id is null or exists (
                       select from holdfast.inbox p
                       where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
                   ) as at_work,
                   case when head.id in (select c.id from unnest(c_ids) as c (id)) then 'candidate'
                        when head.status::text = 'pending' and not head.owned and not exists (
                            select from unnest(lane_queues, lane_priorities, lane_owned, hint_ats, hint_seqs)
                                        as l (queue, priority, owned, hint_at, hint_seq)
                            where not l.owned
                              and l.queue = head.queue
                              and l.priority = head.priority
                              and (head.available_at, head.seq) < (l.hint_at, l.hint_seq)) then 'ahead'
                        when head.available_at <= holdfast.clock()
                             and holdfast.knows(kinds, versions, head.kind, head.payload_version)
                             and head.crashes = 0
                             and head.attempts < head.max_attempts
                             and head.queue <> all (coalesce(paused, '{}'))
                             and (not head.owned or (head.queue, head.partition_bucket) in (
                                 select own.queue, own.bucket from unnest(own_queues, own_buckets) as own (queue, bucket)))
                        then 'next' else 'not ours' end as state
            from unnest(k_queues, k_keys) as k (queue, key)
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
        ) k;
    end if;

    -- 3. Take heads and rows without order, as many as there is room for, but none that somebody has locked.
    with wanted as materialized (
        select h.id from unnest(h_ids, h_states) as h (id, state) where h.state in ('next', 'candidate')
        union all
        select c.id from unnest(c_ids, c_ordered) as c (id, ordered) where not c.ordered
        limit take
    ),
    lockable as materialized (
        select i.id
        from wanted w
        join holdfast.inbox i on i.id = any (array[w.id])
        where i.status::text in ('pending', 'blocked')
        for update of i skip locked
    )
    select array(select l.id from lockable l) into taken;

    -- 4. What waits behind its head is parked, if asked for.
    if park and c_ids is not null then
        with put_aside as materialized (
            select i.id
            from unnest(c_ids, c_queues, c_keys, c_ordered) as c (id, queue, key, ordered)
            join holdfast.inbox i on i.id = any (array[c.id])
            where c.ordered
              and (c.queue, c.key) in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
              and c.id not in (select h.id from unnest(h_ids) as h (id))
              and i.status::text = 'pending'
            for update of i skip locked
        )
        update holdfast.inbox i
        set status = 'blocked'
        from put_aside p
        where i.id = any (array[p.id]);
        get diagnostics parked = row_count;
    end if;

    -- 5. A next row that we do not take is everyone's: it goes where all look.
    if exists (select from unnest(h_ids, h_states) as h (id, state)
               where h.state in ('next', 'not ours') and h.id not in (select t.id from unnest(taken) as t (id))) then
        with free as materialized (
            select i.id
            from unnest(h_ids, h_states) as h (id, state)
            join holdfast.inbox i on i.id = any (array[h.id])
            where h.state in ('next', 'not ours')
              and h.id not in (select t.id from unnest(taken) as t (id))
              and i.status::text in ('pending', 'blocked')
            for update of i skip locked
        )
        update holdfast.inbox i
        set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
        from free f
        where i.id = any (array[f.id]);
    end if;

    looked := coalesce(cardinality(c_ids), 0);
    if looked > 0 then
        end_lane := c_lanes[looked];
        end_at := greatest(c_ats[looked], timestamptz '0001-01-01 00:00:00+00');
        end_seq := c_seqs[looked];
    end if;
    busy := array(
        select v.n::int
        from unnest(vacated_queues, vacated_keys, vacated_passed) with ordinality as v (queue, key, passed, n)
        where v.passed and (v.queue, v.key) not in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
    );

    select array_agg(p.queue), array_agg(p.key) into passed_queues, passed_keys
    from (
        select distinct c.queue, c.key
        from unnest(c_ids, c_queues, c_keys, c_ordered) as c (id, queue, key, ordered)
        where c.ordered
          and c.id not in (select h.id from unnest(h_ids) as h (id))
          and (c.queue, c.key) in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
    ) p;

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
        returning i.available_at, i.seq, i.id, i.lease_generation, i.fence, i.attempts, i.max_attempts, i.kind,
                  i.payload_version, i.payload::text as payload, i.queue, i.partition_key, i.headers::text as headers,
                  i.idempotency_key, i.cancel_requested_at is not null as cancelled, i.ordered
    ),
    left_alone as (
        select c.lane, c.at, c.seq
        from unnest(c_ids, c_lanes, c_ats, c_seqs, c_queues, c_keys, c_ordered) as c (id, lane, at, seq, queue, key, ordered)
        where c.id not in (select t.id from unnest(taken) as t (id))
          and (not c.ordered
               or c.id in (select h.id from unnest(h_ids) as h (id))
               or (c.queue, c.key) not in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key)))
    )
    select at, paused, snapshot, null::boolean, running, null::boolean, owned,
           o.lane, o.available_at, o.seq, o.id, o.lease_generation, o.fence, o.attempts, o.max_attempts, o.kind,
           o.payload_version, o.payload, o.queue, o.partition_key, o.headers, o.idempotency_key, o.cancelled, o.ordered,
           looked, parked, end_lane, end_at, end_seq, busy, passed_queues, passed_keys, e_queues, e_keys
    from (select) as always
    left join (
        select 0 as lane, c.available_at, c.seq, c.id, c.lease_generation, c.fence, c.attempts, c.max_attempts, c.kind,
               c.payload_version, c.payload, c.queue, c.partition_key, c.headers, c.idempotency_key, c.cancelled, c.ordered
        from claimed c
        union all
        select l.lane, greatest(l.at, timestamptz '0001-01-01 00:00:00+00'), l.seq, null, null, null, null, null, null, null,
               null, null, null, null, null, null, null
        from left_alone l
    ) o on true;
end
$$;

-- Make parked heads pending again, where nothing of their key is in processing: what hand-written SQL, an operator or a
-- worker that died between the end of a row and its look at the key has left behind.
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
            select i.id
            from holdfast.inbox i
            where i.ordered and i.status in ('pending', 'blocked')
              and i.queue = k.queue
              and i.partition_key = k.key
              and not (i.skips and i.status::text = 'pending'
                       and i.available_at > greatest(holdfast.clock(), clock_timestamp()))
            order by i.seq
            limit 1
        ) h
        join holdfast.inbox l on l.id = any (array[h.id])
        where l.status::text = 'blocked'
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
