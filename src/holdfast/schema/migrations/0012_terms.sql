-- How a job is to be enqueued, by name. Functions take this instead of one parameter per option, and clients send it as
-- JSON: a client that does not know an option leaves it out, and it is null.
create type holdfast.terms as (
    kind text, queue text, priority int, delay float8, at timestamptz, max_attempts int, version int, headers jsonb,
    ordered boolean, skips boolean);
