-- A schedule has changed: a host that has read it before must not fire it as it was. With a new timing, its slots count from
-- now on.
create or replace function holdfast.schedule_changed() returns trigger
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
begin
    if (new.cron, new.every, new.tz) is distinct from (old.cron, old.every, old.tz) then
        new.since := greatest(new.since, holdfast.clock());
        new.next_at := null;
        new.error := null;
    elsif (new.jitter, new.grace, new.missed) is distinct from (old.jitter, old.grace, old.missed) then
        new.next_at := null;
    end if;
    new.revision := old.revision + 1;
    return new;
end
$$;

-- Not for what leaves the slots as they are: that it was seen, or why it cannot fire.
create or replace trigger changed
    before update of source, kind, args, options, cron, every, tz, missed, grace, jitter, paused_at, since, last_slot, next_at
    on holdfast.schedules
    for each row execute function holdfast.schedule_changed();
