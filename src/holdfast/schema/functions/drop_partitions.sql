-- Drop the partitions that are due, if rows of which the task says nothing are kept for "keep" days. Must not wait long: a
-- waiting DROP holds up every completion behind it, so the caller sets lock_timeout and retries later. At most 200 at once, the
-- oldest days first: each takes several entries of the server's lock table.
create or replace function holdfast.drop_partitions(keep int) returns int
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    name    text;
    dropped int := 0;
begin
    for name in select d.name from holdfast.due_partitions(keep) as d (name) order by d.name limit 200 loop
        execute format('drop table holdfast.%I', name);
        dropped := dropped + 1;
    end loop;
    return dropped;
end
$$;
