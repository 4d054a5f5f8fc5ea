-- Names mean what they meant here, whatever stands on a caller's search_path.
--
-- A function without a search_path of its own resolves its names by the caller's. There, somebody else's power(int, int) in
-- "public" is a better match for power(2, 30) than the server's own power(float8, float8), and runs with the caller's
-- rights. So the functions in plpgsql get a search_path of their own. That would keep the SQL functions from being
-- inlined; their bodies become expressions instead, which are resolved once, here: the runner of migrations pins the
-- search_path before it comes to this file.

create or replace function holdfast.clock() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();

do $do$
begin
    if current_setting('server_version_num')::int >= 180000 then
        create or replace function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            return pg_catalog.uuidv7();
    else
        create or replace function holdfast.uuidv7() returns uuid
            language sql volatile parallel safe
            return encode(
                set_byte(
                    overlay(
                        uuid_send(gen_random_uuid())
                        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                        from 1 for 6),
                    6, (get_byte(uuid_send(gen_random_uuid()), 0) & 15) | 112),
                'hex')::uuid;
    end if;
end
$do$;

create or replace function holdfast.bucket(key text) returns int
    language sql immutable strict parallel safe
    return (get_byte(sha256(convert_to(key, 'UTF8')), 0) << 2) | (get_byte(sha256(convert_to(key, 'UTF8')), 1) >> 6);

create or replace function holdfast.knows(kinds text[], versions jsonb, kind text, version int) returns boolean
    language sql immutable parallel safe
    return kind = any (kinds)
           and case when versions ? kind
                    then version between (versions -> kind ->> 0)::int and (versions -> kind ->> 1)::int
                    else version = 1 end;

create or replace function holdfast.setting(name text) returns jsonb
    language sql stable parallel safe
    return (select s.value from holdfast.settings s where s.name = setting.name);

create or replace function holdfast.backoff(attempts int) returns interval
    language sql volatile parallel safe
    return make_interval(secs =>
        least(holdfast.setting('backoff_unit')::float8 * power(2, least(greatest(attempts, 0), 30)),
              holdfast.setting('backoff_cap')::float8)
        * (1 + holdfast.setting('backoff_jitter')::float8 * random()));

create or replace function holdfast.difference(kind text, payload jsonb, asked_kind text, asked_payload jsonb) returns text
    language sql immutable parallel safe
    return case when kind is distinct from asked_kind then format('kind %s', kind)
                when payload <> asked_payload then 'another payload' end;

create or replace function holdfast.key_lock(queue text, key text) returns bigint
    language sql immutable parallel safe
    return hashtextextended(key, hashtextextended('holdfast.key.' || queue, 0));

create or replace function holdfast.channel() returns text
    language sql immutable parallel safe
    return replace('holdfast.wake', '"', '');

create or replace function holdfast.flag(state text, queue text) returns bigint
    language sql immutable parallel safe
    return hashtextextended('holdfast.' || state || ' ' || queue, 0);

alter function holdfast.make_partitions set search_path = pg_catalog, pg_temp;
alter function holdfast.drop_partitions set search_path = pg_catalog, pg_temp;
alter function holdfast.may_wait set search_path = pg_catalog, pg_temp;
alter function holdfast.reserve_key set search_path = pg_catalog, pg_temp;
alter function holdfast.store_job set search_path = pg_catalog, pg_temp;
alter function holdfast.enqueue_once set search_path = pg_catalog, pg_temp;
alter function holdfast.enqueue_each set search_path = pg_catalog, pg_temp;
alter function holdfast.enqueue set search_path = pg_catalog, pg_temp;
alter function holdfast.claim_guarded set search_path = pg_catalog, pg_temp;
alter function holdfast.release_heads set search_path = pg_catalog, pg_temp;
alter function holdfast.is_up set search_path = pg_catalog, pg_temp;

-- Statements outside of functions are written so that the server's own operators match exactly. It has none for this type
-- alone: nobody else may make one.
revoke usage on type holdfast.inbox_status from public;

-- "wake" again (see 0004_wake.sql). The lock is tried and given back in one expression, in which the server does not look
-- for a cancel: between two statements a cancel could leave it held, and the flag up for as long as the session lived.
--
-- Without a search_path of its own, which would cost every enqueue more than the question itself: all its calls match the
-- server's own exactly, whatever else is found.
create or replace function holdfast.wake(queue text, delay float8 default null, at timestamptz default null) returns boolean
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    asleep constant bigint := holdfast.flag('asleep', queue);
begin
    if delay > 0::float8 or at > clock_timestamp()
       or (case when pg_try_advisory_lock(asleep) then pg_advisory_unlock(asleep) else false end) then    -- nobody sleeps
        return false;
    elsif holdfast.is_up(holdfast.flag('awake', queue))
       or exists (select from holdfast.queues q where q.name = queue and q.paused_at is not null)
       or holdfast.setting('notify') = 'false'
       or pg_notification_queue_usage() > 0.5::float8 then  -- a full queue fails the commit: no hint is worth that
        return false;
    end if;
    perform pg_notify(holdfast.channel(), ':' || queue);
    return true;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------
-- A first try that comes late
--
-- Who gets no answer to an enqueue asks again under the same id. The first try may be late and not lost: its session
-- stood still, or its packet is on its way. If the job has run and left the inbox by then, nothing would be in its way,
-- and there would be a second job. So whoever asks again first says so here, and commits that; and the first try looks
-- here after its insert.

-- The ids that were asked for again, for a day. Empty, unless answers were lost.
create table holdfast.asked_again (
    id uuid primary key,
    at timestamptz not null
);

-- Is a first try in time? Raises if it is not, so that nothing comes of it. To be called after the insert of the job, in
-- the same statement, in READ COMMITTED.
--
-- It looks with a snapshot taken now. Either the mark had been committed by then: it raises. Or it had not: then the job's
-- row was inserted before the mark was committed, and so before the repetition began. The repetition meets it in the
-- primary key, and waits for its end if need be, or finds it in the archive, where it looks after an insert of its own.
-- (No search_path of its own: see "wake".)
create function holdfast.in_time(job uuid) returns boolean
    language plpgsql volatile
    as $$
begin
    perform from holdfast.asked_again a where a.id = job;
    if found then
        raise exception 'job % has been asked for again: this first try came late', job using errcode = 'HF003';
    end if;
    return true;
end
$$;
