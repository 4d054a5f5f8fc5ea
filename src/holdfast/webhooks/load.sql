-- The endpoints of a batch of deliveries.
-- Takes    $1 ids.
-- Returns  id, url, status, secrets that have not expired (newest first), since when each fails and for how many seconds.
select e.id, e.url, e.status, e.failing_since, extract(epoch from holdfast.clock() - e.failing_since)::float8 as failing_for,
       array(
           select s.secret ->> 'secret'::text
           from pg_catalog.jsonb_array_elements(e.secrets) with ordinality as s (secret, n)
           where (s.secret ->> 'expires_at'::text)::timestamptz > holdfast.clock() or s.secret ->> 'expires_at'::text is null
           order by s.n) as secrets
from holdfast.endpoints e
where e.id = any ($1::uuid[])
