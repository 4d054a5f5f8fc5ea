-- unblock_heads under its name before version 11, for workers of older versions that still run.
create or replace function holdfast.release_heads(queues text[], keys text[]) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return holdfast.unblock_heads(queues, keys);
end
$$;
