-- Is the flag up? Try to take its lock and give it back at once: nothing stays, in any transaction, behind any pooler.
-- Another producer who asks in the same instant looks like a flag, too. Taken for "asleep" that is one notification too
-- many; taken for "awake", this one is left to that other producer, who is about to notify.
create or replace function holdfast.is_up(flag bigint) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    return not case when pg_try_advisory_lock(flag) then pg_advisory_unlock(flag) else false end;
end
$$;
