-- When a job of these terms expires, if it is due at "due" (null: now). A duration counts from now. Rejects a job that
-- would fall due only after that: it could never start. A time that has passed is no mistake: the job ends as expired.
create or replace function holdfast.expiry(terms holdfast.terms, due timestamptz) returns timestamptz
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
declare
    at constant timestamptz := coalesce(terms.expires_at, clock_timestamp() + make_interval(secs => terms.expires));
begin
    if terms.delay >= terms.expires or (due > clock_timestamp() and due >= at) then
        raise exception 'expires: the job is due at %, and would expire at %, before it could start',
                        holdfast.stamp(due), holdfast.stamp(at)
            using errcode = 'HF001', hint = 'An expiry counts from the enqueue: it must be later than delay or at.';
    end if;
    return at;
end
$$;
