-- Notify workers that sleep on this queue, if none is awake: jobs have arrived, due after "delay" or "at" if given.
-- Called in the transaction that enqueues; sent when it commits. True if a notification will be sent.
--
-- Payloads: ':' and a queue, for one job; '+', a number, ':' and a queue, for that many more.
-- "Awake" is tested three times: another producer that tests in the same instant holds its lock for a moment, too, and
-- neither would notify. A lock is tried and released in one expression, in which the server does not check for a cancel:
-- between two statements, a cancel could leave it held, and the flag up for as long as the session lives.
--
-- Without its own search_path, which would cost every enqueue more than the test itself: all its calls match the server's
-- functions exactly, whatever else is on the search_path.
drop function if exists holdfast.wake(text, float8, timestamptz);     -- as it was before version 7
create or replace function holdfast.wake(
    queue text, delay float8 default null, at timestamptz default null, jobs int default 1
) returns boolean
    language plpgsql volatile
    as $$
#variable_conflict use_variable
declare
    asleep constant bigint := holdfast.flag('asleep', queue);
    awake  bigint;
begin
    if delay > 0::float8 or at > clock_timestamp()
       or (case when pg_try_advisory_lock(asleep) then pg_advisory_unlock(asleep) else false end) then    -- no worker sleeps
        return false;
    end if;
    awake := holdfast.flag('awake', queue);
    if (holdfast.is_up(awake) and holdfast.is_up(awake) and holdfast.is_up(awake))
       or exists (select from holdfast.queues q where q.name = queue and q.paused_at is not null)
       or holdfast.setting('notify') = 'false'
       or pg_notification_queue_usage() > 0.5::float8 then  -- a full queue makes the commit fail
        return false;
    end if;
    perform pg_notify(holdfast.channel(), ':' || queue);
    if jobs > 1 then
        perform pg_notify(holdfast.channel(), '+' || (jobs - 1)::text || ':' || queue);
    end if;
    return true;
end
$$;
