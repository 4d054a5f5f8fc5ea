-- Set the status of a worker: draining, or dead when it has left.
-- Takes    $1 worker, $2 status, $3 its last counters as JSON (null: as they were).
update holdfast.workers w
set status = $2, last_seen_at = holdfast.clock(),
    metadata = coalesce(w.metadata, '{}') || '{"drained": true}'
        || case when $2 = 'dead' then '{"left": true}' else '{}' end::jsonb
        || case when $3::text is null then '{}' else pg_catalog.jsonb_build_object('counters', $3::text::jsonb) end
where w.id = $1
