-- Move finished rows that instances wait for to the archive, and tell their parents: as housekeeping/archive.sql does with
-- others.
-- Takes    batch; the last id of the previous batch.
-- Returns  how many, and the last id if there may be more.
-- Locks    the rows and their parents (see lock_parents), skipping locked ones.
-- Index    idx_inbox_finished.
create or replace function holdfast.archive_children(batch int, after uuid, out rows int, out last uuid)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    ids      uuid[];
    free     boolean[];
    gone     uuid[];
    statuses text[];
    reasons  text[];
begin
    ids := array(
        select i.id
        from holdfast.inbox i
        where i.status in ('completed', 'failed') and i.id > after and holdfast.parent_of(i.headers) is not null
        order by i.id
        limit batch
        for update skip locked);
    rows := 0;
    if cardinality(ids) = 0 then
        return;
    elsif cardinality(ids) >= batch then
        last := ids[cardinality(ids)];
    end if;
    free := holdfast.lock_parents(ids);
    with ended as (
        delete from holdfast.inbox i
        using unnest(ids, free) as f (id, free)
        where f.free and i.id = any (array[f.id])
        returning i.*, case when i.status::text = 'completed' then null
                            when i.cancel_requested_at is not null then 'cancelled' else 'failed' end as ended_as
    ),
    remembered as (
        update holdfast.dedupe d
        set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
        from ended e
        where e.idempotency_key is not null and d.key = any (array[e.idempotency_key])
    ),
    archived as (
        insert into holdfast.archive
        select a.*
        from ended e
        left join holdfast.kinds k on k.kind = e.kind and e.ended_as is null
        cross join lateral jsonb_populate_record(           -- the columns that both tables have, and how it ended
            null::holdfast.archive,
            to_jsonb(e) || jsonb_build_object('status', coalesce(e.ended_as, 'completed'), 'finished_at', holdfast.clock(),
                                              'keep_days', k.keep_days)) as a
        where coalesce(k.keep_days, 1) > 0
    )
    select array_agg(e.id), array_agg(e.ended_as), array_agg(e.last_error) into gone, statuses, reasons from ended e;
    if gone is not null then
        rows := cardinality(gone);
        perform holdfast.tell_parents(gone, statuses, null, reasons);
        perform holdfast.fold_ended(gone);
    end if;
end
$$;
