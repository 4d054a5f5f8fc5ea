-- The foundation: every table, type and function of the first release, with room for what comes next.
--
-- Written for the default schema name; the runner puts the configured one in its place, so names stay qualified.
-- No foreign keys, no row triggers on the hot path: a claim or a completion touches one row and its few indexes.

-- ---------------------------------------------------------------------------------------------------------------
-- Time and identity

-- The only clock. Not now(), which a long transaction freezes; not clock_timestamp(), which is volatile and so cannot
-- bound an index scan. A single SQL expression, so that the planner inlines it; tests replace it.
create function holdfast.clock() returns timestamptz
    language sql stable parallel safe
    as 'select statement_timestamp()';

-- A version-7 UUID: the server's own from PostgreSQL 18 on, else 48 bits of milliseconds and 74 random bits.
do $do$
begin
    if current_setting('server_version_num')::int >= 180000 then
        create function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            as 'select pg_catalog.uuidv7()';
    else
        create function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            as $fn$
                select encode(
                    set_byte(
                        overlay(
                            uuid_send(gen_random_uuid())
                            placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                            from 1 for 6),
                        6, (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112),
                    'hex')::uuid
            $fn$;
    end if;
end
$do$;

-- The bucket of a key: the first ten bits of sha256 over its UTF-8 bytes. docs/sql.md publishes test vectors.
create function holdfast.bucket(key text) returns int
    language sql immutable strict parallel safe
    as $$ select (get_byte(sha256(convert_to(key, 'UTF8')), 0) << 2) | (get_byte(sha256(convert_to(key, 'UTF8')), 1) >> 6) $$;

-- Can a worker run this kind in this payload version? It sends the kinds that it knows, and {kind: [oldest, newest]}
-- for those that know more than version 1. Inlined into the claim.
create function holdfast.knows(kinds text[], versions jsonb, kind text, version int) returns boolean
    language sql immutable parallel safe
    as $$
        select kind = any (kinds)
           and case when versions ? kind
                    then version between (versions -> kind ->> 0)::int and (versions -> kind ->> 1)::int
                    else version = 1 end
    $$;

-- ---------------------------------------------------------------------------------------------------------------
-- Settings of this installation

create table holdfast.settings (
    name  text collate "C" primary key,
    value jsonb not null
);

insert into holdfast.settings (name, value) values
    ('bucket_count',       '1024'),
    ('hash_version',       '1'),
    ('payload_bytes',      '1048576'),
    ('backoff_unit',       '1'),        -- seconds; the delay after attempt n is unit * 2^n,
    ('backoff_cap',        '3600'),     -- never more than this many seconds,
    ('backoff_jitter',     '0.25'),     -- and up to this share of it on top
    ('dedupe_horizon',     '604800'),   -- seconds an idempotency key outlives the end of its job
    ('once_horizon',       '2592000'),  -- seconds a finished once() marker is remembered
    ('archive_days',       '30'),       -- days of finished jobs kept
    ('worker_days',        '1');        -- days a dead worker stays listed

create function holdfast.setting(name text) returns jsonb
    language sql stable parallel safe
    as $$ select s.value from holdfast.settings s where s.name = setting.name $$;

-- The one backoff: exponential, capped, with jitter that only ever adds. Safe for any number of attempts.
create function holdfast.backoff(attempts int) returns interval
    language sql volatile parallel safe
    as $$
        select make_interval(secs =>
            least(holdfast.setting('backoff_unit')::float8 * power(2, least(greatest(attempts, 0), 30)),
                  holdfast.setting('backoff_cap')::float8)
            * (1 + holdfast.setting('backoff_jitter')::float8 * random()))
    $$;

-- ---------------------------------------------------------------------------------------------------------------
-- Workers and queues

create table holdfast.workers (
    id           text collate "C" primary key,          -- host, pid and a random part: unique per process start
    status       text not null default 'alive' check (status in ('alive', 'draining', 'dead')),
    last_seen_at timestamptz not null default now(),
    started_at   timestamptz not null default now(),
    metadata     jsonb default '{}'                      -- version, host, queues, kinds, counters
) with (fillfactor = 50);

create table holdfast.queues (
    name      text collate "C" primary key,
    paused_at timestamptz,
    ordered   boolean not null default false,            -- its jobs run one at a time and in order, per key,
    skips     boolean not null default false,            -- but one that waits for its retry does not hold its key
    owned     boolean not null default false             -- its buckets belong to its workers, by the ring
);

-- ---------------------------------------------------------------------------------------------------------------
-- The inbox: live work

create type holdfast.inbox_status as enum ('pending', 'processing', 'completed', 'failed', 'dead_letter', 'blocked');

-- Drawn at every claim; rises across jobs, so that a store which several jobs write can refuse a stale one.
create sequence holdfast.fence as bigint;

create table holdfast.inbox (
    id                  uuid primary key default holdfast.uuidv7(),
    seq                 bigint generated always as identity,    -- the order of arrival; ids do not give it
    partition_key       text collate "C" not null check (octet_length(partition_key) between 1 and 512),
    partition_bucket    int not null check (partition_bucket >= 0 and partition_bucket < 1024),
    queue               text collate "C" not null default 'default' check (char_length(queue) between 1 and 128),
    priority            smallint not null default 1 check (priority between 0 and 3),   -- 0 runs first
    kind                text collate "C" generated always as (payload ->> 'type') stored,
    payload             jsonb not null,
    payload_version     int not null default 1 check (payload_version >= 1),
    headers             jsonb,
    status              holdfast.inbox_status not null default 'pending',
    attempts            int not null default 0,
    max_attempts        int not null default 5 check (max_attempts >= 1),
    crashes             int not null default 0,                 -- attempts in a row that ended with their process
    claimed_by          text collate "C",
    claimed_at          timestamptz,
    lease_expires_at    timestamptz,
    lease_generation    bigint not null default 0,              -- one up at every claim; every worker's write names it
    fence               bigint,
    available_at        timestamptz not null default now(),
    cancel_requested_at timestamptz,
    completed_at        timestamptz,
    dead_at             timestamptz,
    last_error          text,
    errors              jsonb,                                  -- every failed attempt, oldest first
    idempotency_key     text collate "C" check (octet_length(idempotency_key) between 1 and 512),
    ordered             boolean not null default false,         -- one at a time and in order of seq, per queue and key
    skips               boolean not null default false,         -- while it waits for its retry it does not hold its key
    owned               boolean not null default false,         -- claimed by the owner of its bucket
    created_at          timestamptz not null default now()
) with (
    fillfactor = 70,
    vacuum_truncate = off,                       -- truncation would lock the table against everyone
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000
);

-- The claim walks these indexes in their own order, from its floor on; nothing else decides the order of claims.
-- A pending row is in exactly one of the three, so that no claim walks rows that are another's.
create index idx_inbox_claim on holdfast.inbox (queue, priority, available_at, seq)
    where status = 'pending' and not ordered and not owned;

create index idx_inbox_ordered_claim on holdfast.inbox (queue, priority, available_at, seq)
    where status = 'pending' and ordered and not owned;

create index idx_inbox_bucket_claim on holdfast.inbox (queue, partition_bucket, priority, available_at, seq)
    where status = 'pending' and owned;

-- What waits of an ordered key, in order: the first is its head, while nothing of the key is in processing.
create index idx_inbox_key on holdfast.inbox (queue, partition_key, seq)
    where ordered and status in ('pending', 'blocked');

-- Rows whose last attempt took its process down run alone; there are few.
create index idx_inbox_suspect on holdfast.inbox (available_at, seq) where status = 'pending' and crashes > 0;

-- Pending rows without an attempt left: only hand-written SQL makes them; housekeeping buries them.
create index idx_inbox_exhausted on holdfast.inbox (id) where status = 'pending' and attempts >= max_attempts;

create index idx_inbox_stale_processing on holdfast.inbox (lease_expires_at, id) where status = 'processing';

create index idx_inbox_cancel on holdfast.inbox (claimed_by) where status = 'processing' and cancel_requested_at is not null;

-- The last guard of order: one row in processing per ordered key.
create unique index idx_inbox_partition_processing on holdfast.inbox (queue, partition_key)
    where ordered and status = 'processing';

-- Rows behind an unfinished head of their key; housekeeping looks over the keys in it.
create index idx_inbox_blocked on holdfast.inbox (queue, partition_key, seq) where status = 'blocked';

create index idx_inbox_dead on holdfast.inbox (dead_at, id) where status = 'dead_letter';

-- Rows that somebody's own SQL completed; housekeeping moves them to the archive.
create index idx_inbox_finished on holdfast.inbox (id) where status in ('completed', 'failed');

create unique index idx_inbox_idempotency_key on holdfast.inbox (idempotency_key) where idempotency_key is not null;

-- ---------------------------------------------------------------------------------------------------------------
-- The archive: work that ended. Retention drops partitions and never deletes rows.

create table holdfast.archive (
    id                  uuid not null,
    seq                 bigint not null,
    partition_key       text collate "C" not null,
    partition_bucket    int not null,
    queue               text collate "C" not null,
    priority            smallint not null,
    kind                text collate "C",
    payload             jsonb not null,
    payload_version     int not null,
    headers             jsonb,
    status              holdfast.inbox_status not null,          -- completed or failed
    attempts            int not null,
    max_attempts        int not null,
    claimed_by          text collate "C",
    claimed_at          timestamptz,
    lease_generation    bigint not null,
    fence               bigint,
    available_at        timestamptz not null,
    cancel_requested_at timestamptz,
    last_error          text,
    errors              jsonb,
    idempotency_key     text collate "C",
    result              jsonb,
    created_at          timestamptz not null,
    finished_at         timestamptz not null
) partition by range (finished_at);

create index idx_archive_id on holdfast.archive (id);

create table holdfast.archive_default partition of holdfast.archive default;

-- One partition per day (UTC), made ahead: standalone first, then attached, so that only a short lock on the empty
-- default partition is needed. A day that already has rows in the default partition is left there.
create function holdfast.make_partitions(ahead int) returns int
    language plpgsql volatile
    as $$
declare
    day  date;
    name text;
    made int := 0;
begin
    for day in select d::date from generate_series((holdfast.clock() at time zone 'UTC')::date,
                                                   (holdfast.clock() at time zone 'UTC')::date + ahead, '1 day') d loop
        name := to_char(day, '"archive_"YYYYMMDD');
        continue when to_regclass(format('holdfast.%I', name)) is not null;
        begin
            execute format('create table holdfast.%I (like holdfast.archive including defaults)', name);
            execute format('alter table holdfast.archive attach partition holdfast.%I for values from (%L) to (%L)',
                           name, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
            made := made + 1;
        exception when check_violation or duplicate_table or unique_violation then
            null;                                    -- rows of that day came first, or another session made it
        end;
    end loop;
    return made;
end
$$;

-- Drop the partitions whose newest row is older than so many days. Never waits long: a waiting DROP blocks every
-- completion behind it, so the caller sets lock_timeout and tries again later.
create function holdfast.drop_partitions(keep int) returns int
    language plpgsql volatile
    as $$
declare
    name    text;
    dropped int := 0;
begin
    for name in
        select c.relname
        from pg_inherits h join pg_class c on c.oid = h.inhrelid
        where h.inhparent = 'holdfast.archive'::regclass
          and c.relname ~ '^archive_\d{8}$'
          and to_date(substr(c.relname, 9), 'YYYYMMDD') < (holdfast.clock() at time zone 'UTC')::date - keep
        order by c.relname
    loop
        execute format('drop table holdfast.%I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end
$$;

select holdfast.make_partitions(7);

-- ---------------------------------------------------------------------------------------------------------------
-- Idempotency: of producers (dedupe) and of handlers (once)

create table holdfast.dedupe (
    key          text collate "C" primary key,
    job_id       uuid not null,
    kind         text collate "C",
    payload_hash bytea not null,
    expires_at   timestamptz                                     -- null while the job is live or a dead letter
);

create index idx_dedupe_expires on holdfast.dedupe (expires_at) where expires_at is not null;

create table holdfast.once (
    key        text collate "C" primary key,
    job_id     uuid not null,
    fence      bigint not null,                                  -- of the claim that entered last
    entered_at timestamptz not null,
    done_at    timestamptz
);

create index idx_once_done on holdfast.once (done_at) where done_at is not null;

-- ---------------------------------------------------------------------------------------------------------------
-- Housekeeping: when each chore ran last, and from where the next one starts

create table holdfast.chores (
    name   text collate "C" primary key,
    ran_at timestamptz,
    floor  timestamptz,
    result jsonb
);

-- ---------------------------------------------------------------------------------------------------------------
-- Views

create view holdfast.dead_letter as
    select id, queue, kind, partition_key, payload, payload_version, attempts, max_attempts, lease_generation,
           last_error, errors, idempotency_key, created_at, dead_at
    from holdfast.inbox
    where status = 'dead_letter';

create view holdfast.jobs as
    select id, seq, queue, priority, kind, partition_key, partition_bucket, payload, payload_version, headers, status,
           attempts, max_attempts, crashes, claimed_by, claimed_at, lease_expires_at, lease_generation, fence,
           available_at, cancel_requested_at, last_error, errors, idempotency_key, null::jsonb as result,
           created_at, coalesce(dead_at, completed_at) as finished_at
    from holdfast.inbox
    union all
    select id, seq, queue, priority, kind, partition_key, partition_bucket, payload, payload_version, headers, status,
           attempts, max_attempts, 0, claimed_by, claimed_at, null, lease_generation, fence,
           available_at, cancel_requested_at, last_error, errors, idempotency_key, result,
           created_at, finished_at
    from holdfast.archive;
