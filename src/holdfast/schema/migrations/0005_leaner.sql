-- Less work for the same.

-- The inbox's pages are filled to half, so that a claim's new version of a row stays on its page: 160 bytes of WAL less.
alter table holdfast.inbox set (fillfactor = 50);

-- Planned while the archive is empty, its look-up there would read whole partitions for as long as the session lives.
alter function holdfast.enqueue_once set enable_seqscan = off;

-- "wake" again, for the producer who has nothing to tell: one function with plain expressions (see 0004_wake.sql).
create or replace function holdfast.wake(queue text, delay float8 default null, at timestamptz default null) returns boolean
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    asleep constant bigint := holdfast.flag('asleep', queue);
begin
    if delay > 0 or at > clock_timestamp() then
        return false;
    elsif pg_try_advisory_lock(asleep) then                 -- nobody sleeps
        return not pg_advisory_unlock(asleep);
    elsif holdfast.is_up(holdfast.flag('awake', queue))
       or exists (select from holdfast.queues q where q.name = queue and q.paused_at is not null)
       or holdfast.setting('notify') = 'false'
       or pg_notification_queue_usage() > 0.5 then          -- a full queue fails the commit: no hint is worth that
        return false;
    end if;
    perform pg_notify(holdfast.channel(), ':' || queue);
    return true;
end
$$;

-- The guarded claim again, at three quarters of its cost: the same decisions under the same locks (see 0003_order.sql).
--
-- What it knows about the whole call stands in one row, the first, instead of in every row. What has nothing to do is not
-- asked. Rows are updated where they were found when they were locked, without another look at the primary key. And what
-- is asked of each key is asked in a LATERAL with a limit: an "exists" that is planned while there is little reads the
-- whole index, and a session's plans stay when there is much (97 ms instead of 0.5 beside 100,000 parked rows).

-- Claim due rows of the lanes that are the heads of their keys, and the next rows of keys that have fallen vacant.
--
-- Takes    lanes: queue, priority, of owned rows?, where to start, and the hint up to which rows have been passed before;
--          the buckets that are ours, in the order in which they have their turn; keys of which a row has just ended here,
--          and whether rows of theirs have been passed (else only parked ones matter); how many rows to look at, of how
--          many keys, and how many to take; suspects: take one row that is to run alone, of the lanes' queues, instead;
--          park: park what is not the head of its key; the rest as in claim.sql.
-- Returns  first a row about the call: the time, paused and owned queues, on a rescan the snapshot and the xids that run;
--          how many rows were looked at and parked; lane and position of the last; which of the vacated keys somebody else
--          holds: to be asked about again, since that one may have looked before the row had ended; the keys of which
--          rows were passed, and those of which nothing waits.
--          Then one row per claim, as claim.sql; then one per row that was left as it was (somebody else holds its key,
--          or there was no room), with its lane and place but no id: the floor must not pass it.
-- Locks    keys and rows, skipping what is locked; never waits.
-- Index    idx_inbox_ordered_claim or idx_inbox_bucket_claim per lane, idx_inbox_key and the index of processing keys per
--          key, the primary key to lock rows, then their places.
create or replace function holdfast.claim_guarded(
    lane_queues text[], lane_priorities smallint[], lane_owned boolean[], lane_ats timestamptz[], lane_seqs bigint[],
    hint_ats timestamptz[], hint_seqs bigint[], own_queues text[], own_buckets int[],
    vacated_queues text[], vacated_keys text[], vacated_passed boolean[], look int, most_keys int, take int,
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
    t_ids     uuid[] := '{}';    -- taken
    t_places  tid[] := '{}';
begin
    at := holdfast.clock();
    parked := 0;
    busy := '{}';
    select array_agg(q.name) filter (where q.paused_at is not null), array_agg(q.name) filter (where q.owned)
    into paused, owned
    from holdfast.queues q
    where q.paused_at is not null or q.owned;

    -- 1. Candidates, in the order of the index.
    if suspects then
        select array[i.id], array[0], array[i.available_at], array[i.seq], array[i.queue], array[i.partition_key],
               array[i.ordered]
        into c_ids, c_lanes, c_ats, c_seqs, c_queues, c_keys, c_ordered
        from holdfast.inbox i
        where i.status = 'pending'
          and i.crashes > 0
          and i.available_at <= holdfast.clock()
          and i.queue = any (lane_queues)
          and i.queue <> all (coalesce(paused, '{}'))
          and holdfast.knows(kinds, versions, i.kind, i.payload_version)
          and i.attempts < i.max_attempts
        order by i.available_at, i.seq
        limit 1;
    elsif look > 0 then
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
            where l.queue <> all (coalesce(paused, '{}'))
            limit look
        ),
        owned_candidate as (
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
            where lane_owned[l.n] and l.queue <> all (coalesce(paused, '{}'))
            limit look - (select count(*) from candidate)
        )
        select array_agg(f.id), array_agg(f.n::int), array_agg(f.available_at), array_agg(f.seq), array_agg(f.queue),
               array_agg(f.partition_key), array_agg(f.ordered), case when rescan then pg_current_snapshot()::text end
        into c_ids, c_lanes, c_ats, c_seqs, c_queues, c_keys, c_ordered, snapshot
        from (select * from candidate union all select * from owned_candidate) f;
    end if;

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

    -- 2. Their keys, and the vacated ones, as far as nobody else holds them.
    if true = any (c_ordered) or vacated_keys <> '{}' then
        with wanted as materialized (
            select v.queue, v.key
            from unnest(vacated_queues, vacated_keys, vacated_passed) as v (queue, key, passed)
            left join lateral (
                select true as it
                from holdfast.inbox b
                where not v.passed and b.status = 'blocked' and b.queue = v.queue and b.partition_key = v.key
                limit 1
            ) parked on true
            where v.passed or parked.it
            union
            (
                select c.queue, c.key
                from unnest(c_queues, c_keys, c_ordered) with ordinality as c (queue, key, ordered, place)
                where c.ordered
                group by c.queue, c.key
                order by min(c.place)
                limit most_keys
            )
        )
        select array_agg(w.queue), array_agg(w.key)
        into k_queues, k_keys
        from wanted w
        where pg_try_advisory_xact_lock(holdfast.key_lock(w.queue, w.key));
    end if;

    -- 3. The heads of those keys, by a snapshot taken after their locks; none while a row is in processing. A head that is no
    -- candidate is "next" when we passed it before, or it is parked: nobody will meet it on his way. A row that skips waits
    -- for its retry only if it is due later than now, not than when this statement began: another may have released it since.
    if k_queues is not null then
        select array_agg(k.head) filter (where not k.at_work), array_agg(k.state) filter (where not k.at_work),
               array_agg(k.queue) filter (where k.head is null), array_agg(k.key) filter (where k.head is null)
        into h_ids, h_states, empty_queues, empty_keys
        from (
            select k.queue, k.key, head.id as head,
                   head.id is null or processing.it is not null as at_work,
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
            left join lateral (
                select true as it
                from holdfast.inbox p
                where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
                limit 1
            ) processing on true
        ) k;
    end if;

    -- 4. Lock heads and rows without order, as many as there is room for, but none that somebody else has locked.
    if take > 0 and (h_ids is not null or false = any (c_ordered)) then
        with wanted as materialized (
            select h.id from unnest(h_ids, h_states) as h (id, state) where h.state in ('next', 'candidate')
            union all
            select c.id from unnest(c_ids, c_ordered) as c (id, ordered) where not c.ordered
            limit take
        ),
        lockable as materialized (
            select i.id, i.ctid as place
            from wanted w
            join holdfast.inbox i on i.id = any (array[w.id])
            where i.status::text in ('pending', 'blocked')
            for update of i skip locked
        )
        select coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.place), '{}') into t_ids, t_places from lockable l;
    end if;

    -- 5. What waits behind its head is parked, if asked for.
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

    -- 6. A next row that we do not take is everyone's: it goes where all look.
    if 'next' = any (h_states) or 'not ours' = any (h_states) then
        with free as materialized (
            select i.id
            from unnest(h_ids, h_states) as h (id, state)
            join holdfast.inbox i on i.id = any (array[h.id])
            where h.state in ('next', 'not ours')
              and h.id not in (select t.id from unnest(t_ids) as t (id))
              and i.status::text in ('pending', 'blocked')
            for update of i skip locked
        )
        update holdfast.inbox i
        set status = 'pending', available_at = greatest(i.available_at, clock_timestamp())
        from free f
        where i.id = any (array[f.id]);
    end if;

    -- 7. About the call.
    looked := coalesce(cardinality(c_ids), 0);
    if looked > 0 then
        end_lane := c_lanes[looked];
        end_at := greatest(c_ats[looked], timestamptz '0001-01-01 00:00:00+00');
        end_seq := c_seqs[looked];
    end if;
    if true = any (vacated_passed) then
        busy := array(
            select v.n::int
            from unnest(vacated_queues, vacated_keys, vacated_passed) with ordinality as v (queue, key, passed, n)
            where v.passed and (v.queue, v.key) not in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
        );
    end if;
    if cardinality(t_ids) < looked then
        select array_agg(p.queue), array_agg(p.key) into passed_queues, passed_keys
        from (
            select distinct c.queue, c.key
            from unnest(c_ids, c_queues, c_keys, c_ordered) as c (id, queue, key, ordered)
            where c.ordered
              and c.id not in (select h.id from unnest(h_ids) as h (id))
              and (c.queue, c.key) in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key))
        ) p;
    end if;
    return next;

    -- 8. What is taken. It is locked, so it is where it was.
    if t_places <> '{}' then
        return query
        update holdfast.inbox i
        set status = 'processing',
            claimed_by = worker,
            claimed_at = holdfast.clock(),
            lease_expires_at = holdfast.clock() + make_interval(secs => lease),
            lease_generation = i.lease_generation + 1,
            attempts = i.attempts + 1,
            fence = nextval('holdfast.fence')
        where i.ctid = any (t_places)
        returning null::timestamptz, null::text[], null::text, null::boolean, null::bigint[], null::boolean, null::text[],
                  0, i.available_at, i.seq, i.id, i.lease_generation, i.fence, i.attempts, i.max_attempts, i.kind,
                  i.payload_version, i.payload::text, i.queue, i.partition_key, i.headers::text, i.idempotency_key,
                  i.cancel_requested_at is not null, i.ordered,
                  null::int, null::int, null::int, null::timestamptz, null::bigint, null::int[],
                  null::text[], null::text[], null::text[], null::text[];
    end if;

    -- 9. What is left as it was.
    if cardinality(t_ids) < looked then
        return query
        select null::timestamptz, null::text[], null::text, null::boolean, null::bigint[], null::boolean, null::text[],
               c.lane, greatest(c.at, timestamptz '0001-01-01 00:00:00+00'), c.seq, null::uuid, null::bigint, null::bigint,
               null::int, null::int, null::text, null::int, null::text, null::text, null::text, null::text, null::text,
               null::boolean, null::boolean,
               null::int, null::int, null::int, null::timestamptz, null::bigint, null::int[],
               null::text[], null::text[], null::text[], null::text[]
        from unnest(c_ids, c_lanes, c_ats, c_seqs, c_queues, c_keys, c_ordered)
             as c (id, lane, at, seq, queue, key, ordered)
        where c.id not in (select t.id from unnest(t_ids) as t (id))
          and (not c.ordered
               or c.id in (select h.id from unnest(h_ids) as h (id))
               or (c.queue, c.key) not in (select k.queue, k.key from unnest(k_queues, k_keys) as k (queue, key)));
    end if;
end
$$;

-- Make parked heads pending again, where nothing of their key is in processing: what hand-written SQL, an operator or a
-- worker that died between the end of a row and its look at the key has left behind.
-- Returns how many. Keys that somebody else holds are left: whoever holds one looks after it.
create or replace function holdfast.release_heads(queues text[], keys text[]) returns int
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
        left join lateral (
            select true as it
            from holdfast.inbox p
            where p.ordered and p.status = 'processing' and p.queue = k.queue and p.partition_key = k.key
            limit 1
        ) processing on true
        join holdfast.inbox l on l.id = any (array[h.id])
        where l.status::text = 'blocked'
          and processing.it is null
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
