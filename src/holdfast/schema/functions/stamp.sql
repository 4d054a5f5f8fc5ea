-- A time as workers read it in JSON, in any time zone of the session. Drivers know no time before the year 1; workers treat
-- that year as the beginning of time.
create or replace function holdfast.stamp(at timestamptz) returns text
    language sql stable parallel safe
    return to_char(greatest(at, timestamptz '0001-01-01 00:00:00+00') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
