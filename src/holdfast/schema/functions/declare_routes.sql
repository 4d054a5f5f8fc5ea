-- Store the routes of an application that are not there yet or, if "all", as its code has them now.
-- Takes    a JSON array of objects: name, types, ordered, skips, max_attempts, destination.
-- Returns  the names of new ones.
create or replace function holdfast.declare_routes(declared jsonb, everything boolean) returns setof text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
begin
    if everything then
        update holdfast.routes r
        set types = d.types, ordered = d.ordered, skips = d.skips, max_attempts = d.max_attempts, destination = d.destination,
            seen_at = holdfast.clock(), removed_at = null
        from jsonb_to_recordset(declared)
             as d (name text, types text[], ordered boolean, skips boolean, max_attempts int, destination text)
        where r.name = d.name;
    end if;
    return query
    insert into holdfast.routes (name, types, queue, ordered, skips, max_attempts, destination)
    select d.name, d.types, 'out.' || d.name, d.ordered, d.skips, d.max_attempts, d.destination
    from jsonb_to_recordset(declared)
         as d (name text, types text[], ordered boolean, skips boolean, max_attempts int, destination text)
    where not exists (select from holdfast.routes r where r.name = d.name)
    order by d.name
    on conflict do nothing
    returning name;
end
$$;
