-- The steps of workflows come as one JSON parameter instead of an array for each column: half of the work for the worker,
-- which is what limits instances per second. The functions that took arrays go; their files make the new ones.
-- Workers that call the old ones must be stopped first.

drop function if exists holdfast.park_instances(
    text, uuid[], bigint[], bigint[], text[], float8[], timestamptz[], int[], uuid[], bigint[], text[], int[], int[], text[],
    text[], text[], text[], int[], bigint[], float8[], float8[], timestamptz[], bigint[], text[]);
drop function if exists holdfast.record_steps(
    text, uuid[], bigint[], text[], int[], int[], text[], text[], text[], text[], int[], bigint[], float8[], float8[],
    timestamptz[], bigint[], text[]);
