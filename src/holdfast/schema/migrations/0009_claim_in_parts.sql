-- The guarded claim is split into parts that can be read one by one; these types pass values between them.

-- One bounded scan of due rows: of one queue and priority, of owned rows or of others. It starts where the worker's last scan
-- ended, or further back. The hint is the position up to which rows have been passed before.
create type holdfast.lane as (
    queue text, priority smallint, owned boolean, start_at timestamptz, start_seq bigint, hint_at timestamptz, hint_seq bigint);

-- A bucket of an owned queue.
create type holdfast.bucket_of_queue as (queue text, bucket int);

-- A key one of whose rows has just ended, and whether rows of it were passed before.
create type holdfast.vacated_key as (queue text, key text, passed boolean);

create type holdfast.queue_key as (queue text, key text);

-- A due row that a scan has found, and in which lane.
create type holdfast.candidate as (
    id uuid, lane int, at timestamptz, seq bigint, queue text, key text, ordered boolean);

-- The first waiting row of a key that has no row in processing.
--   candidate   a scan has just found it
--   next        no scan will find it, because it was passed before or is blocked; and we may claim it
--   not ours    the same, but we may not claim it: another owner, another kind, a paused queue, a later time
--   ahead       a scan will find it
create type holdfast.head as (id uuid, reach text);
