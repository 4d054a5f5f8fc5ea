-- For callers in SQL: let a paused workflow instance go on, or retry one that is a dead letter, with all attempts of its steps.
-- It runs at once, and waits again for what has not come yet.
-- Takes    the id given at its start, or the job's id; who does it (null: holdfast.actor() says it).
-- Returns  resumed, not paused (nothing was done), ended, or unknown.
-- Locks    its row in "instances", then its inbox row; waits for transactions that hold them.
-- Index    primary keys and idx_inbox_idempotency_key.
drop function if exists holdfast.resume_instance(text);          -- as it was up to version 23
create or replace function holdfast.resume_instance(instance text, actor text default null) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    job constant uuid := holdfast.instance_id(instance);
    paused boolean;
    dead   boolean;
    due    text;
begin
    if job is null then
        return 'unknown';
    end if;
    perform from holdfast.inbox i where i.id = job;
    if not found then
        return 'ended';
    end if;
    perform holdfast.lock_instance(job);
    select s.paused_at is not null into paused from holdfast.instances s where s.job_id = job;
    select i.status::text = 'dead_letter' into dead from holdfast.inbox i where i.id = job for update;
    if not found then
        return 'ended';
    elsif not (paused or dead) then
        return 'not paused';
    end if;
    update holdfast.instances s set paused_at = null, mail = s.mail + 1 where s.job_id = job;
    if dead then
        update holdfast.steps s set attempts = 0 where s.job_id = job and s.status = 'open';
    end if;
    update holdfast.inbox i
    set status = case when i.status::text = 'blocked' then i.status else 'pending' end,
        available_at = clock_timestamp(),
        attempts = case when dead then 0 else i.attempts end,
        crashes = case when dead then 0 else i.crashes end,
        dead_at = null,
        expires_at = case when dead then null else i.expires_at end,
        unique_key = case when dead then null else i.unique_key end      -- another job may have it by now
    where i.id = job and i.status::text in ('pending', 'blocked', 'dead_letter')
    returning i.queue into due;
    if due is not null then
        perform holdfast.wake(due);
    end if;
    perform holdfast.note('workflow.resumed', instance, actor);
    return 'resumed';
end
$$;
