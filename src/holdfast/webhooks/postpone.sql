-- Give deliveries back without an attempt: for later, or to hold.<id> if their endpoint is paused or disabled now.
-- Takes    $1 ids in ascending order, $2 generations, $3 delays in seconds, $4 worker.
-- Returns  id, queue. An id that does not come back was lost.
-- Locks    the endpoints, shared, in order of id (see fan_out.sql); then the rows, in order of id.
-- Index    the primary keys.
-- The endpoints are gathered into one value, so that all are locked, and read as they are now, before the first row is.
with status as materialized (
    select pg_catalog.jsonb_object_agg(e.id::text, e.status) as of
    from (
        select p.id, p.status
        from holdfast.endpoints p
        where p.id in (select (i.payload ->> 'endpoint'::text)::uuid from holdfast.inbox i where i.id = any ($1::uuid[]))
        order by p.id
        for share
    ) e
)
update holdfast.inbox i
set status = 'pending',
    queue = case when (select s.of from status s) ->> (i.payload ->> 'endpoint'::text) in ('paused', 'disabled')
                 then 'hold.' || (i.payload ->> 'endpoint'::text) else i.queue end,
    available_at = clock_timestamp() + make_interval(secs => least(h.delay, 3155760000)),
    attempts = greatest(i.attempts - 1, 0),
    crashes = 0,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from unnest($1::uuid[], $2::bigint[], $3::float8[]) as h (id, generation, delay)
where i.id = any (array[h.id])
  and i.claimed_by = $4
  and i.lease_generation = h.generation
  and i.status::text = 'processing'
returning i.id, i.queue
