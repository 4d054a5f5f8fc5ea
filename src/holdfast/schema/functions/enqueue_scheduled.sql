-- Enqueue the job of a schedule: for a slot, once, however often this is called; or, without one, now, under the given id.
-- The job's headers say which schedule and slot it is for.
-- Returns  its id, and whether it was there before.
create or replace function holdfast.enqueue_scheduled(schedule holdfast.schedules, slot timestamptz, id uuid)
    returns table (job_id uuid, existed boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    terms holdfast.terms := jsonb_populate_record(null::holdfast.terms, schedule.options);
    stamp text := to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
begin
    terms.kind := schedule.kind;
    terms.queue := coalesce(terms.queue, 'default');
    terms.priority := coalesce(terms.priority, 1);
    terms.max_attempts := coalesce(terms.max_attempts, 5);
    terms.version := coalesce(terms.version, 1);
    terms.skips := coalesce(terms.skips, schedule.options ->> 'on_failure' = 'skip');
    terms.delay := null;                   -- a job is enqueued when it is due
    terms.at := null;
    terms.headers := coalesce(terms.headers, '{}') || jsonb_strip_nulls(jsonb_build_object('schedule', schedule.name, 'slot', stamp));
    select o.job_id, o.existed into job_id, existed
    from holdfast.enqueue_once(
        id, schedule.options ->> 'key', jsonb_build_object('type', schedule.kind) || schedule.args,
        'schedule:' || schedule.name || ':' || stamp, terms) o;
    if not existed then
        perform holdfast.wake(terms.queue);
    end if;
    return next;
end
$$;
