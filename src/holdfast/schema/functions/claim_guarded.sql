-- Claim due rows of the lanes that are the heads of their keys, and the next rows of vacated keys; also owned rows without
-- order; or one suspect.
--
-- A key is (queue, partition_key). Its head is its waiting row with the lowest seq; a row with "skips" that is due later
-- does not count. A row of an ordered key is claimed if it is the head and nothing of the key is in processing.
--
-- Every decision about a key is made under the key's lock, a transaction-scoped advisory lock that is only ever tried, and
-- with a snapshot taken after the lock. That is why this is a function, and why each of its parts is VOLATILE: each of their
-- statements has a separate snapshot. A STABLE part would use the caller's snapshot, which is older than the lock, and break
-- the order. Producers and endings take no lock: the worker that ended a row looks at its key afterwards. So if one worker
-- passes a row because the head is running, and another looks at the key after that head has ended, either the second sees
-- the row, or the first sees the end. The unique index on processing rows is the last guard.
--
-- A due row that is not the head is passed by the floor of the worker that found it, and found again through its key when its turn
-- comes. One that still waits when a patrol finds it becomes "blocked", which takes it out of the claim's index.
--
-- Takes    the lanes; the buckets that this worker owns; keys of which a row has just ended here; how many rows to look at,
--          of how many keys, and how many to take; suspects: take one suspect of the lanes' queues instead; block: block what is not
--          the head of its key; the rest as claim.sql.
-- Returns  first a row with only "about", as the last one of claim.sql, and in it: "busy", which of the vacated keys another
--          worker has locked: to be asked about again, because that worker may have looked before the row had ended;
--          "passed", the keys of which rows were passed; "empty", those of which nothing waits. Then a row per
--          claim, in the order of their places.
-- Locks    keys and rows, skipping what is locked; never waits.
-- Index    see its parts.
drop function if exists holdfast.claim_guarded(                       -- as it was before version 9
    text[], smallint[], boolean[], timestamptz[], bigint[], timestamptz[], bigint[], text[], int[], text[], text[], boolean[],
    int, int, int, boolean, boolean, text[], jsonb, text, float8, boolean);
drop function if exists holdfast.claim_guarded(                       -- it returned no "expires_in" before version 17
    holdfast.lane[], holdfast.bucket_of_queue[], holdfast.vacated_key[], int, int, int, boolean, boolean, text[], jsonb, text,
    float8, boolean);
create or replace function holdfast.claim_guarded(
    lanes holdfast.lane[], own holdfast.bucket_of_queue[], vacated holdfast.vacated_key[], look int, most_keys int, take int,
    suspects boolean, block boolean, kinds text[], versions jsonb, worker text, lease float8, rescan boolean
) returns table (
    id uuid, lease_generation bigint, fence bigint, attempts int, max_attempts int, kind text, payload_version int,
    payload text, queue text, partition_key text, headers text, idempotency_key text, cancelled boolean, expires_in float8,
    ordered boolean, available_at timestamptz, seq bigint, about json
)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_hashjoin = on             -- for the arrays; a worker's session turns it off because of the tables
    set plan_cache_mode = force_generic_plan
    as $$
#variable_conflict use_column
declare
    paused     text[];
    owned      text[];
    snapshot   text;
    running    bigint[];
    candidates holdfast.candidate[];
    keys       holdfast.queue_key[];     -- that we have locked
    heads      holdfast.head[];
    empty      holdfast.queue_key[];
    taken      uuid[];
    places     tid[];
begin
    select coalesce(array_agg(q.name) filter (where q.paused_at is not null), '{}'), array_agg(q.name) filter (where q.owned)
    into paused, owned
    from holdfast.queues q
    where q.paused_at is not null or q.owned;

    -- 1. Candidates, in the order of the index; and on a rescan the xids that run after the scan.
    if suspects then
        candidates := holdfast.suspect(array(select l.queue from unnest(lanes) as l), paused, kinds, versions);
    elsif look > 0 then
        select c.candidates, c.snapshot into candidates, snapshot
        from holdfast.candidates(lanes, own, paused, look, kinds, versions, rescan) as c;
    end if;
    if rescan then
        running := array(select * from holdfast.running_transactions());
    end if;

    -- 2. Lock their keys, and the vacated ones, unless another worker has them locked.
    if candidates <> '{}' or vacated <> '{}' then
        keys := holdfast.lock_keys(candidates, vacated, most_keys);
    end if;
    -- 3. The heads of those keys, by a snapshot taken after their locks.
    if keys is not null then
        select h.heads, h.empty into heads, empty
        from holdfast.heads(keys, candidates, lanes, own, paused, kinds, versions) as h;
    end if;
    -- 4. Lock heads and rows without order, as many as there is room for.
    if take > 0 and (heads <> '{}' or candidates <> '{}') then
        select l.ids, l.places into taken, places from holdfast.lock_rows(heads, candidates, take) as l;
    end if;
    -- 5. Block what waits behind its head, if asked for; make heads that we do not take claimable by everyone.
    if block and candidates <> '{}' then
        perform holdfast.block(candidates, keys, heads);
    end if;
    if exists (select from unnest(heads) as h where h.reach in ('next', 'not ours')) then
        perform holdfast.unblock(heads, taken);
    end if;

    -- 6. Report, and claim the locked rows: locked, they keep their places.
    about := holdfast.about_claim(
        lanes, candidates, vacated, keys, heads, taken, look, paused, owned, snapshot, running, empty);
    return next;
    if places is not null then
        return query
        update holdfast.inbox i
        set status = 'processing',
            claimed_by = worker,
            claimed_at = holdfast.clock(),
            lease_expires_at = holdfast.clock() + make_interval(secs => lease),
            lease_generation = i.lease_generation + 1,
            attempts = i.attempts + 1,
            fence = nextval('holdfast.fence')
        where i.ctid = any (places)
        returning i.id, i.lease_generation, i.fence, i.attempts, i.max_attempts, i.kind, i.payload_version, i.payload::text,
                  i.queue, i.partition_key, i.headers::text, i.idempotency_key, i.cancel_requested_at is not null,
                  case when isfinite(i.expires_at) then extract(epoch from i.expires_at - holdfast.clock())::float8 end,
                  i.ordered, i.available_at, i.seq, null::json;
    end if;
end
$$;
