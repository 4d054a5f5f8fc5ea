-- Note in the journal what somebody does, in the transaction in which it is done. A plain insert: it waits for nobody.
-- Takes    what, such as 'queue.paused'; what it was done to; by whom (null: holdfast.actor() says it); to how many; more.
-- Returns  the id of the row.
create or replace function holdfast.note(
    what text, subject text default '', actor text default null, count bigint default 1, details jsonb default '{}'
) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_column
declare
    noted bigint;
begin
    insert into holdfast.journal (at, what, subject, actor, count, details)
    values (holdfast.clock(), note.what, note.subject, coalesce(note.actor, holdfast.actor()), note.count, note.details)
    returning id into noted;
    return noted;
end
$$;
