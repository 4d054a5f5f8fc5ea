-- Wake-ups: a hint to workers that sleep. Polling finds all work without it.
--
-- Committing a transaction that notifies takes a lock of the whole cluster, so a producer notifies only when it would
-- help: somebody sleeps on the queue, and nobody is awake who would find the job by itself in a moment. Both are flags
-- in memory: advisory locks that each host's listener holds shared, in its own session. Nothing is written, and a flag
-- ends with its session.

insert into holdfast.settings (name, value) values
    ('notify', 'true');                 -- may enqueue notify? No: for producers that use PREPARE TRANSACTION

-- The channel of this installation. Payloads: ':' and a queue, when work came; '!' when the registry of workers has
-- news for them; '?' and a token when a listener tries its own ears.
create function holdfast.channel() returns text
    language sql immutable parallel safe
    as $$ select replace('holdfast.wake', '"', '') $$;

-- The lock that is the flag "somebody is asleep (or awake) on this queue".
create function holdfast.flag(state text, queue text) returns bigint
    language sql immutable parallel safe
    as $$ select hashtextextended('holdfast.' || state || ' ' || queue, 0) $$;

-- Is the flag up? Try to take its lock and give it back at once: nothing stays, in any transaction, behind any pooler.
-- Another producer who asks in the same instant looks like a flag, too. Taken for "asleep" that is one notification too
-- many; taken for "awake", this one is left to that other producer, who is about to notify.
create function holdfast.is_up(flag bigint) returns boolean
    language plpgsql volatile
    as $$
begin
    return not case when pg_try_advisory_lock(flag) then pg_advisory_unlock(flag) else false end;
end
$$;

-- Work came to this queue, due after "delay" or "at" if given: tell a worker that sleeps, if nobody is awake.
-- Called in the transaction that brings the work; told when it commits. True if it will be.
create function holdfast.wake(queue text, delay float8 default null, at timestamptz default null) returns boolean
    language plpgsql volatile
    as $$
#variable_conflict use_variable
begin
    if delay > 0 or at > clock_timestamp()
       or not holdfast.is_up(holdfast.flag('asleep', queue))
       or holdfast.is_up(holdfast.flag('awake', queue)) then
        return false;
    elsif exists (select from holdfast.queues q where q.name = queue and q.paused_at is not null)
       or holdfast.setting('notify') = 'false'
       or pg_notification_queue_usage() > 0.5 then          -- a full queue fails the commit: no hint is worth that
        return false;
    end if;
    perform pg_notify(holdfast.channel(), ':' || queue);
    return true;
end
$$;
