-- "unpark_heads" under the name that it had before version 11, for workers of that release that still run.
create or replace function holdfast.release_heads(queues text[], keys text[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return holdfast.unpark_heads(queues, keys);
end
$$;
