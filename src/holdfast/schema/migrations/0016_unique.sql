-- Unique jobs: at most one job of a kind and unique key that has not started yet; or, if unique_done, that has not ended.
--
-- "Not started" and not "pending": the first claim gives the key up for good. With an index on pending rows, a retry would
-- collide with the job that was enqueued while it ran.
alter table holdfast.inbox
    add column unique_key text collate "C",
    add column unique_done boolean,
    add constraint inbox_unique_key_is_1_to_512_bytes check (octet_length(unique_key) between 1 and 512);

create unique index idx_inbox_unique on holdfast.inbox (kind, unique_key)
    where unique_key is not null and (lease_generation = 0 or unique_done) and status <> 'dead_letter';

alter type holdfast.terms add attribute unique_key text;
alter type holdfast.terms add attribute unique_arguments boolean;    -- instead of a key: the arguments
alter type holdfast.terms add attribute unique_done boolean;
alter type holdfast.terms add attribute replace text;                -- a job that waits: 'arguments', or 'time' as well
