-- Does an instance, or one that waits for it, hold up this key of this queue while it waits? Then a child of this key cannot
-- wait for its turn: it would wait for the end of what waits for it. It runs in that turn, without an order of its own.
-- Index    the primary key, once for each that waits for the next.
create or replace function holdfast.in_turn_of(job uuid, queue text, key text) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off           -- planned while the inbox is empty
    as $$
#variable_conflict use_variable
declare
    up uuid := case when key is not null then job end;
    it record;
begin
    while up is not null loop
        select i.ordered and not i.skips and i.queue = queue and i.partition_key = key as holds,
               holdfast.parent_of(i.headers) as parent
        into it
        from holdfast.inbox i
        where i.id = up;
        if it.holds then
            return true;
        end if;
        up := it.parent;
    end loop;
    return false;
end
$$;
