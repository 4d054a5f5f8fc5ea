-- Endpoints as operators see them: without secrets.
-- Takes    $1 id (null: all), $2 tenant (null: of all), $3 how many.
-- Returns  their columns, when their secrets were made and expire, and how many of their deliveries are held.
-- Index    idx_inbox_claim and idx_inbox_ordered_claim, of the queues hold.<id>.
select e.id, e.tenant, e.url, e.types, e.status, e.ordered, e.description, e.failing_since, e.disabled_at, e.disabled_reason,
       e.created_at,
       array(
           select (s.secret ->> 'created_at'::text)::timestamptz
           from pg_catalog.jsonb_array_elements(e.secrets) as s (secret)
           where (s.secret ->> 'expires_at'::text)::timestamptz > holdfast.clock() or s.secret ->> 'expires_at'::text is null) as secrets,
       (select count(*) from holdfast.inbox i
        where i.status = 'pending' and not i.ordered and not i.owned and i.queue = 'hold.' || e.id::text)
       + (select count(*) from holdfast.inbox i
          where i.status = 'pending' and i.ordered and not i.owned and i.queue = 'hold.' || e.id::text) as held
from holdfast.endpoints e
where ($1::uuid is null or e.id = $1) and ($2::text is null or e.tenant = $2)
order by e.tenant nulls first, e.url
limit $3
