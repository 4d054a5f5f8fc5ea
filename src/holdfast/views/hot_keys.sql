-- The keys with the most live jobs, and which worker holds each. Keys of single jobs (the job's own id) are left out.
-- Takes    $1 queue (null: any), $2 limit, $3 the most pages to read.
-- Returns  counts by status, seconds since the oldest was enqueued, the job at the head and its worker; `share` is the part of
--          the table that was read: below 1, the counts are scaled up from it, and keys with few jobs are missed.
-- Cost     bounded: at most about $3 pages of the inbox, taken at random when it has more, and two index probes per key.
-- Index    none for the counts; idx_inbox_partition_processing for the holder of an ordered key.
with size as materialized (
    select least(1::float8, $3::float8 / greatest(
               1, pg_catalog.pg_relation_size('holdfast.inbox') / current_setting('block_size'::text)::bigint)::float8) as share
),
hot as (
    select i.queue, i.partition_key as key, min(i.partition_bucket) as bucket, bool_or(i.ordered) as ordered,
           count(*) as live,
           count(*) filter (where i.status = 'pending') as pending,
           count(*) filter (where i.status = 'blocked') as blocked,
           count(*) filter (where i.status = 'processing') as processing,
           min(i.created_at) as oldest,
           (pg_catalog.array_agg(i.id order by i.status = 'processing' desc, i.seq))[1] as head
    from holdfast.inbox i tablesample system (100::float8 * (select s.share from size s))
    where i.status in ('pending', 'blocked', 'processing')
      and ($1::text is null or i.queue = $1)
      and i.partition_key <> i.id::text
    group by i.queue, i.partition_key
    having count(*) > 1
    order by count(*) desc, i.queue, i.partition_key
    limit $2
)
select h.queue, h.key, h.bucket, h.ordered,
       round(h.live::float8 / s.share)::bigint as live, round(h.pending::float8 / s.share)::bigint as pending,
       round(h.blocked::float8 / s.share)::bigint as blocked, round(h.processing::float8 / s.share)::bigint as processing,
       extract(epoch from holdfast.clock() - h.oldest)::float8 as age,
       coalesce(running.id, h.head) as head,
       coalesce(running.claimed_by, sampled.claimed_by) as holder,
       s.share::float8 as share
from size s
cross join hot h
left join lateral (
    select i.id, i.claimed_by
    from holdfast.inbox i
    where i.ordered and i.status = 'processing' and i.queue = h.queue and i.partition_key = h.key
    limit 1
) running on h.ordered
left join holdfast.inbox sampled on sampled.id = h.head
order by h.live desc, h.queue, h.key
