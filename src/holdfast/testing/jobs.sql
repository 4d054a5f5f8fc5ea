-- The jobs of a kind that wait, in the order of enqueue. Also run on callers' connections.
-- Takes    $1 kind.
-- Returns  each job as JSON.
select pg_catalog.json_build_object(
           'id', i.id, 'kind', i.kind, 'payload', i.payload, 'version', i.payload_version, 'queue', i.queue,
           'key', case when i.partition_key <> i.id::text then i.partition_key end, 'priority', i.priority,
           'at', holdfast.stamp(i.available_at), 'created_at', holdfast.stamp(i.created_at),
           'now', holdfast.stamp(holdfast.clock()), 'headers', coalesce(i.headers, '{}'), 'attempts', i.attempts,
           'idempotency_key', i.idempotency_key)::text as job
from holdfast.inbox i
where i.kind = $1::text and i.status in ('pending', 'blocked')
order by i.seq
