-- The guarded claim in parts that can be read one by one; these are what they hand to each other.

-- One bounded scan of due rows: of one queue and priority, of rows that have owners or of others. It starts where a worker's
-- last one ended, or further back; the hint is up to where rows have been passed before.
create type holdfast.lane as (
    queue text, priority smallint, owned boolean, start_at timestamptz, start_seq bigint, hint_at timestamptz, hint_seq bigint);

-- A bucket of an owned queue.
create type holdfast.bucket_of_queue as (queue text, bucket int);

-- A key of which a row has just ended, and whether rows of it were passed before.
create type holdfast.vacated_key as (queue text, key text, passed boolean);

create type holdfast.queue_key as (queue text, key text);

-- A due row that a scan has met, and in which lane.
create type holdfast.candidate as (
    id uuid, lane int, at timestamptz, seq bigint, queue text, key text, ordered boolean);

-- The first waiting row of a key of which nothing is in processing.
--   candidate   a scan has just met it
--   next        nobody will meet it on his way: it was passed before, or it is blocked; and we may claim it
--   not ours    the same, but it is for others: another owner, another kind, a paused queue, a later time
--   ahead       a scan will meet it
create type holdfast.head as (id uuid, reach text);
