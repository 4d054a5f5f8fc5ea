-- The kind of a row whose writer does not say it: hand-written SQL, and releases up to version 16. Also when the payload of a
-- row is changed to another type by hand.
create or replace function holdfast.fill_kind() returns trigger
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    new.kind := new.payload ->> 'type';
    return new;
end
$$;

-- Computed from the payload, the column cost every claim 1 µs: an update computes it again. Here and not in a migration, so
-- that no row can come without its kind before the trigger exists. Changes the catalog alone.
alter table holdfast.inbox alter column kind drop expression if exists;

-- Before the insert, so that "returning kind" works. COPY then stores rows one by one: 44 bytes of WAL more for each.
create or replace trigger fill_kind
    before insert on holdfast.inbox
    for each row when (new.kind is null) execute function holdfast.fill_kind();

create or replace trigger follow_payload
    before update of payload on holdfast.inbox
    for each row when (new.kind is not distinct from old.kind and new.payload ->> 'type' is distinct from new.kind)
    execute function holdfast.fill_kind();
