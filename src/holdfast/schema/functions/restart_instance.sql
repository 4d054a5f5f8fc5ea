-- For callers in SQL: run a workflow instance again from a step on. This step and all that began later are forgotten, the jobs
-- that they wait for are cancelled, the signals that they took can be taken again, and the instance is due now.
-- Takes    the id given at its start, or the job's id; the step, and which of several of this name; who does it
--          (null: holdfast.actor() says it).
-- Returns  how many steps were forgotten. Raises HF003 if it runs, or if it is being undone: steps that were undone would count
--          as done; HF001 if it has no such step, or is not live.
-- Locks    its row in "instances", its inbox row, and those of its children; waits for transactions that hold them.
-- Index    primary keys and idx_inbox_idempotency_key.
drop function if exists holdfast.restart_instance(text, text, int);          -- as it was up to version 23
create or replace function holdfast.restart_instance(instance text, step text, n int default 0, actor text default null) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_column
declare
    job constant uuid := holdfast.instance_id(instance);
    state    text;
    lane     text;
    first    int;
    dropped  int;
    names    text[];
    children uuid[];
begin
    if job is not null then
        perform from holdfast.inbox i where i.id = job;
        if found then
            perform holdfast.lock_instance(job);
            select i.status::text, i.queue into state, lane from holdfast.inbox i where i.id = job for update;
        end if;
    end if;
    if state is null then
        raise exception 'instance: there is no live workflow instance %', instance using errcode = 'HF001';
    elsif state not in ('pending', 'blocked', 'dead_letter') then
        raise exception 'instance % runs and cannot be restarted', instance
            using errcode = 'HF003', hint = 'Pause it first, and restart it when it has stopped.';
    end if;
    perform from holdfast.steps s where s.job_id = job and s.name = 'undo:' and s.n = 0;
    if found then
        raise exception 'instance % is being undone and cannot be restarted', instance using errcode = 'HF003';
    end if;
    select s.ordinal into first
    from holdfast.steps s
    where s.job_id = job and s.name = restart_instance.step and s.n = restart_instance.n;
    if not found then
        raise exception 'step: instance % has no step %', instance, restart_instance.step
            using errcode = 'HF001', hint = 'See holdfast.workflow_steps for its steps.';
    end if;
    with forgotten as (
        delete from holdfast.steps s
        where s.job_id = job and s.ordinal >= first
        returning s.name || case when s.n > 0 then '#' || s.n::text else '' end as name,
                  case when s.kind = 'child' and s.status = 'open' then s.child_id end as child
    )
    select count(*), array_agg(f.name), array_agg(f.child) filter (where f.child is not null)
    into dropped, names, children
    from forgotten f;
    update holdfast.signals g set taken_by = null where g.job_id = job and g.taken_by = any (names);
    update holdfast.instances s set mail = s.mail + 1, paused_at = null, parked_generation = null where s.job_id = job;
    update holdfast.inbox i
    set status = case when state = 'blocked' then i.status else 'pending' end,
        available_at = clock_timestamp(),
        attempts = 0,
        crashes = 0,
        dead_at = null,
        cancel_requested_at = null,
        expires_at = null
    where i.id = job;
    perform holdfast.wake(lane);
    if children is not null then
        perform from holdfast.cancel_jobs(children, 'the workflow that waits for it was restarted');
    end if;
    perform holdfast.note('workflow.restarted', restart_instance.instance, restart_instance.actor, 1, jsonb_build_object('step', restart_instance.step, 'forgotten', dropped));
    return dropped;
end
$$;
