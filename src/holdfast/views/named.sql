-- The jobs that a word names exactly: by id, by idempotency key, or as ordered jobs of a key.
-- Takes    $1 the word, $2 the word as an id (null: it is none), $3 queues in which it may be a key, $4 how many.
-- Returns  id, and why it was found.
-- Index    primary key and idx_archive_id, idx_inbox_idempotency_key, the primary key of dedupe, idx_inbox_key.
(
    select j.id, 'id' as found
    from holdfast.jobs j
    where j.id = $2::uuid
    limit 1
)
union all
(
    select d.job_id, 'idempotency key'
    from holdfast.dedupe d
    where d.key = $1::text
    limit 1
)
union all
(
    select k.id, 'key'
    from pg_catalog.unnest($3::text[]) as q (queue)
    cross join lateral (
        select i.id
        from holdfast.inbox i
        where i.ordered and i.status in ('pending', 'blocked') and i.queue = q.queue and i.partition_key = $1::text
        order by i.seq
        limit $4
    ) k
    limit $4
)
