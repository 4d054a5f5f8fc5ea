-- How long to wait after this many attempts of a job of this kind: by the policy of its task, or by the settings.
create or replace function holdfast.retry_delay(kind text, attempts int) returns interval
    language sql volatile
    return coalesce(
        (select make_interval(secs =>
                    least(k.retry_base * power(k.retry_factor, least(greatest(attempts - 1, 0), 64)::float8), k.retry_cap)
                    * (1::float8 + k.retry_jitter * random()))
         from holdfast.kinds k
         where k.kind = retry_delay.kind and k.retry_base is not null),
        holdfast.backoff(attempts));
