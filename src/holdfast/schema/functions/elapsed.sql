-- How long ago something happened that a worker tells now, in seconds by its own clock: timers count from then on. No time has
-- passed while a test holds the clock (holdfast.testing replaces clock_timestamp(), too).
create or replace function holdfast.elapsed(ago float8) returns interval
    language sql volatile parallel safe
    return case when clock_timestamp() = holdfast.clock() then interval '0' else make_interval(secs => coalesce(ago, 0)) end;
