-- For callers in SQL: send a signal to a workflow instance, in the caller's transaction.
-- Takes    the id given at its start, or the job's id; the signal's name and payload; an id of the signal, with which it has
--          one effect however often it is sent; who sends it. The journal gets a row if somebody is named, here or by the setting
--          holdfast.actor: applications send signals as part of their work.
-- Returns  woken (it waits for this, and runs on), kept (for its wait), known (this signal_id has been sent before), ended, or
--          unknown.
-- Locks    the row of the instance in "instances" until the caller's transaction ends; and its inbox row if it waits for this
--          signal. Never the inbox row of a running instance: that must be renewed and ended while the transaction is open.
-- Index    primary keys and idx_inbox_idempotency_key.
drop function if exists holdfast.signal(text, text, jsonb, text);          -- as it was up to version 23
create or replace function holdfast.signal(
    instance text, name text, payload jsonb default null, signal_id text default null, actor text default null
) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_column
declare
    job    uuid;
    number bigint;
    row_of record;
    sender constant text := coalesce(signal.actor, nullif(current_setting('holdfast' || '.actor', true), ''));
begin
    if name is null or name = '' then
        raise exception 'name: expected the name of a signal, got %', coalesce(quote_literal(name), 'null')
            using errcode = 'HF001';
    end if;
    job := holdfast.instance_id(signal.instance);
    if job is null then
        return 'unknown';
    end if;
    perform from holdfast.inbox i where i.id = job;
    if not found then
        return 'ended';
    end if;
    if exists (select from holdfast.inbox i join holdfast.kinds k on k.kind = i.kind where i.id = job and not k.workflow) then
        raise exception 'instance: job % is not a workflow', job using errcode = 'HF001';
    end if;

    perform holdfast.lock_instance(job);
    insert into holdfast.signals (job_id, n, name, payload, signal_id, sent_at)
    select s.job_id, s.mail + 1, signal.name, signal.payload, signal.signal_id, holdfast.clock()
    from holdfast.instances s
    where s.job_id = job
    on conflict do nothing
    returning n into number;
    if not found then
        return 'known';
    end if;
    update holdfast.instances s set mail = number where s.job_id = job;
    if sender is not null then
        perform holdfast.note('workflow.signalled', signal.instance, sender, 1, jsonb_build_object('signal', signal.name));
    end if;

    -- In statements of their own: the snapshot of the one that waited for the lock is older than the parking it waited for.
    select i.status::text as status, i.queue, i.available_at,
           i.status::text = 'pending' and i.lease_generation = s.parked_generation and s.paused_at is null
           and 'signal:' || signal.name = any (s.waits) as waits
    into row_of
    from holdfast.inbox i
    join holdfast.instances s on s.job_id = i.id
    where i.id = job;
    if not found then                  -- it ended while we waited
        delete from holdfast.signals g where g.job_id = job and g.n = number;
        delete from holdfast.instances s where s.job_id = job;
        return 'ended';
    elsif not coalesce(row_of.waits, false) then
        return 'kept';
    end if;
    update holdfast.inbox i
    set available_at = clock_timestamp()
    from holdfast.instances s
    where i.id = job and s.job_id = i.id and i.status::text = 'pending' and i.lease_generation = s.parked_generation
      and i.available_at > clock_timestamp();
    if found then
        perform holdfast.wake(row_of.queue);
    end if;
    return 'woken';
end
$$;
