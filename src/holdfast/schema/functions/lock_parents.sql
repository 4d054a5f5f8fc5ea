-- Lock what the ends of these jobs change of the instances that wait for them: their rows in "instances", and their inbox
-- rows if they are parked.
-- Takes    ids, in any order.
-- Returns  per id, in the same order: may it end now? No: a transaction holds its parent's rows, such as a signal's. Yes, if
--          no live instance waits for it.
-- Locks    instances, then inbox rows, skipping locked ones; never waits.
-- Index    primary keys alone (see complete.sql).
create or replace function holdfast.lock_parents(ids uuid[]) returns boolean[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    parents uuid[];
    locked  boolean[];
begin
    select array_agg(p.id) into parents
    from unnest(ids) as u (id)
    left join lateral (select holdfast.parent_of(i.headers) as id from holdfast.inbox i where i.id = any (array[u.id]) limit 1) c on true
    left join lateral (select i.id from holdfast.inbox i where i.id = any (array[c.id]) limit 1) p on true;
    if array_remove(parents, null) = '{}' then
        return array_fill(true, array[cardinality(ids)]);
    end if;

    -- One that has never waited has no row yet.
    insert into holdfast.instances (job_id)
    select p.id
    from (
        select distinct u.id
        from unnest(parents) as u (id)
        left join lateral (select true as it from holdfast.instances s where s.job_id = any (array[u.id]) limit 1) present on true
        where u.id is not null and present.it is null
        offset 0
    ) p
    where pg_try_advisory_xact_lock(holdfast.instance_lock(p.id))
    on conflict do nothing;

    select array_agg(u.id is null or coalesce(s.it, false)) into locked
    from unnest(parents) as u (id)
    left join lateral (
        select true as it from holdfast.instances s where s.job_id = any (array[u.id]) for no key update skip locked
    ) s on true;

    -- In a statement of its own: its snapshot sees what was parked before the lock.
    select array_agg(u.locked and (w.waits is not true or coalesce(f.it, false))) into locked
    from unnest(parents, locked) as u (id, locked)
    left join lateral (
        select i.status::text = 'pending' as waits from holdfast.inbox i where u.locked and i.id = any (array[u.id]) limit 1
    ) w on true
    left join lateral (
        select true as it
        from holdfast.inbox i
        where w.waits and i.id = any (array[u.id]) and i.status::text = 'pending'
        for no key update skip locked
    ) f on true;
    return locked;
end
$$;
