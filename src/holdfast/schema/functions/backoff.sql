-- The backoff: exponential, capped, with jitter that only adds. Safe for any number of attempts.
create or replace function holdfast.backoff(attempts int) returns interval
    language sql volatile parallel safe
    return make_interval(secs =>
        least(holdfast.setting('backoff_unit')::float8 * power(2, least(greatest(attempts, 0), 30)),
              holdfast.setting('backoff_cap')::float8)
        * (1 + holdfast.setting('backoff_jitter')::float8 * random()));
