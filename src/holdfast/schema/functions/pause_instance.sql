-- For callers in SQL: pause a workflow instance. One that waits is not woken by timers, signals or children; one that runs stops
-- after its current step. Signals are kept.
-- Takes    the id given at its start, or the job's id; who does it (null: holdfast.actor() says it).
-- Returns  paused, ended, or unknown.
-- Locks    its row in "instances", then its inbox row if it waits; waits for transactions that hold them.
-- Index    primary keys and idx_inbox_idempotency_key.
drop function if exists holdfast.pause_instance(text);          -- as it was up to version 23
create or replace function holdfast.pause_instance(instance text, actor text default null) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    job constant uuid := holdfast.instance_id(instance);
begin
    if job is null then
        return 'unknown';
    end if;
    perform from holdfast.inbox i where i.id = job;
    if not found then
        return 'ended';
    end if;
    perform holdfast.lock_instance(job);
    update holdfast.instances s set paused_at = coalesce(s.paused_at, holdfast.clock()) where s.job_id = job;
    -- In a statement of its own: see holdfast.signal.
    update holdfast.inbox i
    set available_at = clock_timestamp() + interval '36525 days'
    where i.id = job and i.status::text in ('pending', 'blocked');
    perform holdfast.note('workflow.paused', instance, actor);
    return 'paused';
end
$$;
