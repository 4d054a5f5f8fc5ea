-- Lock the rows to claim: heads, and candidates without order, at most "take".
-- Returns  the rows and their places: locked, they stay there.
-- Locks    the rows, skipping locked ones; never waits.
-- Index    the primary key.
create or replace function holdfast.lock_rows(
    heads holdfast.head[], candidates holdfast.candidate[], take int, out ids uuid[], out places tid[]
)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    with wanted as materialized (
        select h.id from unnest(heads) as h where h.reach in ('next', 'candidate')
        union all
        select c.id from unnest(candidates) as c where not c.ordered
        limit take
    ),
    lockable as materialized (
        select i.id, i.ctid as place
        from wanted w
        join holdfast.inbox i on i.id = any (array[w.id])
        where i.status::text in ('pending', 'blocked')
        for update of i skip locked
    )
    select array_agg(l.id), array_agg(l.place) into ids, places from lockable l;
end
$$;
