-- Publish events: see schema/functions/publish_events.sql.
-- Takes    arrays of text and numbers, so that every driver can send them: $1 ids, $2 types, $3 versions, $4 keys, $5 tenants,
--          $6 headers as JSON, $7 data as JSON; $8 source, $9 brought, $10 guarded, $11 routes of the caller's code as JSON.
-- Returns  position, id, existed, conflict, deliveries.
select p.n, p.event_id::text as id, p.existed, p.conflict, p.deliveries
from holdfast.publish_events(
    $1::text[]::uuid[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[]::jsonb[], $7::text[]::jsonb[], $8::text,
    $9::boolean, $10::boolean, $11::text::jsonb) p
