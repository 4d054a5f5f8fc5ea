-- Change the status of a webhook endpoint, and move its waiting deliveries: to hold.<id>, which no worker claims, when it is
-- paused or disabled; back to their queue when it is active.
--
-- Fan-out and the endings of deliveries share a lock on the endpoint while they choose a queue by its status. This function
-- takes the lock alone first, and searches the deliveries in a later statement, with a newer snapshot. So it sees every
-- delivery whose queue was chosen by the old status, and none is left behind.
-- Takes    the endpoint, the status, why; "allowed": the statuses from which it may change; "failing": only if it has been failing
--          since exactly then; who does it (null: Holdfast itself).
-- Returns  the status that it had, and how many deliveries were moved (null: it was not to be changed); nothing if there is no
--          such endpoint.
-- Locks    the endpoint, waiting for others; then the deliveries. Deliveries that a worker is claiming at this moment are
--          skipped: the sender finds the endpoint paused or disabled, and holds them itself.
-- Index    idx_inbox_claim, idx_inbox_ordered_claim and idx_inbox_blocked, of the queue; then the primary key.
drop function if exists holdfast.change_endpoint(uuid, text, text, text[], timestamptz);       -- as it was up to version 23
create or replace function holdfast.change_endpoint(
    endpoint uuid, wanted text, reason text, allowed text[], failing timestamptz, actor text default null
) returns table (was text, moved int)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
#variable_conflict use_variable
declare
    found_one holdfast.endpoints;
    waits     constant text := case when wanted = 'active' then 'hold.' || endpoint::text else 'out.webhooks.endpoints' end;
    goes      constant text := case when wanted = 'active' then 'out.webhooks.endpoints' else 'hold.' || endpoint::text end;
    waiting   uuid[];
    lockable  uuid[];
begin
    select e.* into found_one from holdfast.endpoints e where e.id = endpoint for update;
    if found_one.id is null then
        return;
    end if;
    was := found_one.status;
    if was <> all (allowed) or (failing is not null and failing is distinct from found_one.failing_since) then
        return next;
        return;
    end if;
    if was <> wanted then
        update holdfast.endpoints e
        set status = wanted,
            failing_since = case when wanted = 'active' then null else e.failing_since end,
            disabled_at = case when wanted = 'disabled' then holdfast.clock() end,
            disabled_reason = case when wanted = 'disabled' then reason end
        where e.id = endpoint;
        insert into holdfast.journal (at, what, subject, actor, details)
        values (holdfast.clock(), 'endpoint.' || case wanted when 'active' then 'enabled' else wanted end, endpoint::text, actor,
                jsonb_build_object('url', found_one.url, 'tenant', found_one.tenant, 'was', was, 'reason', reason));
    end if;

    waiting := array(
        select i.id from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned and i.queue = waits
          and i.payload ->> 'endpoint' = endpoint::text
        union all
        select i.id from holdfast.inbox i
        where i.status = 'pending' and i.ordered and not i.owned and i.queue = waits
          and i.payload ->> 'endpoint' = endpoint::text
        union all
        select i.id from holdfast.inbox i
        where i.status = 'blocked' and i.queue = waits and i.payload ->> 'endpoint' = endpoint::text);
    if wanted = 'active' then          -- nobody claims these; an operator may hold one for a moment
        lockable := array(
            select i.id from holdfast.inbox i
            where i.id = any (waiting) and i.status::text in ('pending', 'blocked') and i.queue = waits
            order by i.id for update);
    else
        lockable := array(
            select i.id from holdfast.inbox i
            where i.id = any (waiting) and i.status::text in ('pending', 'blocked') and i.queue = waits
            order by i.id for update skip locked);
    end if;
    -- The lock has drawn the xid before the clock is read: the claim floor needs it (see inbox/enqueue.sql). What waits for
    -- its retry keeps its time, unless the endpoint was disabled: then somebody has mended it since.
    update holdfast.inbox i
    set queue = goes, status = 'pending',
        available_at = case when wanted = 'active' and was = 'disabled' then clock_timestamp()
                            else greatest(i.available_at, clock_timestamp()) end
    where i.id = any (lockable);
    get diagnostics moved = row_count;
    if wanted = 'active' and moved > 0 then
        perform holdfast.wake(goes, null, null, moved);
    end if;
    if wanted = 'disabled' and was <> 'disabled' then        -- for operators: it is no event of the tenant
        perform holdfast.publish('holdfast.endpoint.disabled', jsonb_build_object(
            'endpoint', endpoint, 'tenant', found_one.tenant, 'url', found_one.url, 'reason', reason,
            'failing_since', case when found_one.failing_since is not null then holdfast.stamp(found_one.failing_since) end));
    end if;
    return next;
end
$$;
