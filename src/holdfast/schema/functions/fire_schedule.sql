-- Deal with slots of a schedule: enqueue a job for each of "slots", oldest first, and note that those up to "upto" are done,
-- that "skipped" of them get no job, and when there is something to do next. All of it, or nothing if the schedule is not as
-- it was read: another worker was faster, or it has changed, or is paused.
-- Returns  the ids of the new jobs; null: nothing was done.
-- Locks    the schedule; skips it if another has it.
create or replace function holdfast.fire_schedule(
    name text, revision bigint, slots timestamptz[], upto timestamptz, skipped bigint, next_at timestamptz
) returns uuid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    schedule holdfast.schedules;
    slot     timestamptz;
    made     record;
    jobs     uuid[] := '{}';
    last     uuid;
begin
    select s.* into schedule
    from holdfast.schedules s
    where s.name = fire_schedule.name and s.revision = fire_schedule.revision and s.paused_at is null
    for update skip locked;
    if not found or upto <= schedule.last_slot then
        return null;
    end if;
    foreach slot in array slots loop
        select e.* into made from holdfast.enqueue_scheduled(schedule, slot, null) e;
        last := made.job_id;
        if not made.existed then
            jobs := jobs || made.job_id;
        end if;
    end loop;
    update holdfast.schedules s
    set last_slot = coalesce(upto, s.last_slot), next_at = fire_schedule.next_at, skipped = s.skipped + fire_schedule.skipped,
        last_job = coalesce(last, s.last_job), error = null
    where s.name = fire_schedule.name;
    return jobs;
end
$$;
