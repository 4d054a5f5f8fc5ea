-- Discard dead letters: each moves to the archive as discarded, with its errors. Its idempotency key is kept for its horizon. An
-- instance that waits for it is told.
-- Takes    ids, in any order; who does it (null: holdfast.actor() says it).
-- Returns  the ids discarded.
-- Locks    the rows, in order of id, skipping locked ones (another operator is reviving them), and those whose parents
--          are locked (see lock_parents); never waits.
-- Index    the primary key alone (see complete.sql).
drop function if exists holdfast.discard(uuid[]);          -- as it was up to version 23
create or replace function holdfast.discard(ids uuid[], actor text default null) returns setof uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
declare
    free      boolean[] := holdfast.lock_parents(ids);
    discarded uuid[];
    reasons   text[];
    queues    text[];
    kinds     text[];
begin
    with dead as materialized (
        select i.id
        from (select distinct u.id from unnest(ids, free) as u (id, free) where u.free) d
        join holdfast.inbox i on i.id = any (array[d.id])
        where i.status::text = 'dead_letter'
        order by d.id
        for update of i skip locked
    ),
    ended as (
        delete from holdfast.inbox i
        using dead
        where i.id = any (array[dead.id])
        returning i.*
    ),
    archived as (
        insert into holdfast.archive
        select a.*
        from ended e
        cross join lateral jsonb_populate_record(           -- the columns that both tables have, and how it ended
            null::holdfast.archive,
            to_jsonb(e) || jsonb_build_object('status', 'discarded', 'finished_at', holdfast.clock())) as a
    ),
    remembered as (
        update holdfast.dedupe d
        set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    )
    select array_agg(e.id), array_agg(e.last_error), array_agg(e.queue), array_agg(e.kind)
    into discarded, reasons, queues, kinds
    from ended e;
    if discarded is not null then
        perform holdfast.tell_parents(discarded, array_fill('discarded'::text, array[cardinality(discarded)]), null, reasons);
        perform holdfast.fold_ended(discarded);
        perform holdfast.note_jobs('jobs.discarded', discarded, queues, kinds, actor);
    end if;
    return query select d.id from unnest(discarded) as d (id);
end
$$;
