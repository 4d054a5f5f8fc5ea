-- Add an endpoint.
-- Takes    $1 id, by which a repeated call finds it; $2 tenant, $3 url, $4 types, $5 ordered, $6 secret, $7 description,
--          $8 who does it.
-- Returns  the id; nothing when the tenant has an endpoint with this URL.
with made as (
    insert into holdfast.endpoints as e (id, tenant, url, types, ordered, secrets, description)
    values ($1, $2, $3, $4::text[], $5,
            pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('secret', $6::text, 'created_at', holdfast.clock())), $7)
    on conflict (coalesce(tenant, ''), url) do update
        set id = e.id
        where e.id = excluded.id
    returning e.id, e.url, e.tenant
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'endpoint.added', m.id::text, $8::text,
           pg_catalog.jsonb_build_object('url', m.url, 'tenant', m.tenant)
    from made m
    where not exists (select from holdfast.endpoints p where p.id = $1)          -- repeated: it was noted before
)
select m.id from made m
