-- The error group of a failed attempt that does not say one: of an expired lease, a process that died, or an older worker.
create or replace function holdfast.error_group(kind text, error text) returns text
    language sql immutable parallel safe
    return left(encode(sha256(convert_to(coalesce(kind, '') || E'\n' || coalesce(error, ''), 'UTF8')), 'hex'), 16);
