-- Is the flag up? Try to take its lock and release it at once: nothing stays behind, in any transaction, with any pooler.
-- Another producer that tests in the same instant looks like a flag, too. Taken for "asleep", that is one notification too
-- many; taken for "awake", this producer does not notify, but the other one is about to.
create or replace function holdfast.is_up(flag bigint) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return not case when pg_try_advisory_lock(flag) then pg_advisory_unlock(flag) else false end;
end
$$;
