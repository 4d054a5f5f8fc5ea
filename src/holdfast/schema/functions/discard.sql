-- Discard dead letters: each moves to the archive as discarded, with its errors. Its idempotency key is kept for its horizon.
-- Takes    ids, in any order.
-- Returns  the ids discarded.
-- Locks    the rows, in order of id, skipping locked ones (another operator is reviving them); never waits.
-- Index    the primary key alone (see complete.sql).
create or replace function holdfast.discard(ids uuid[]) returns setof uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- on an application's connection, planned while the inbox is empty
    as $$
begin
    return query
    with dead as materialized (
        select i.id
        from (select distinct u.id from unnest(ids) as u (id)) d
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
        set expires_at = holdfast.clock() + make_interval(secs => holdfast.setting('dedupe_horizon')::float8)
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    )
    select e.id from ended e;
end
$$;
