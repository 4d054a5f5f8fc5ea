-- Webhook endpoints: where events are sent over HTTP. See src/holdfast/webhooks.
-- Compatible from 16

create table holdfast.endpoints (
    id              uuid primary key default holdfast.uuidv7(),
    tenant          text collate "C",                        -- whose events it gets; null: those of no tenant, '*': all
    url             text collate "C" not null,
    types           text[] not null default '{*}',           -- which events, as in holdfast.routes
    status          text not null default 'active',
    ordered         boolean not null default false,          -- one at a time and in order, per key?
    secrets         jsonb not null,                          -- newest first: secret, created_at, expires_at (null: never)
    description     text,
    failing_since   timestamptz,                             -- the first failure since its last success
    disabled_at     timestamptz,
    disabled_reason text,
    created_at      timestamptz not null default holdfast.clock(),
    constraint endpoints_status_is_active_paused_or_disabled check (status in ('active', 'paused', 'disabled')),
    constraint endpoints_tenant_is_1_to_256_bytes check (octet_length(tenant) between 1 and 256),
    constraint endpoints_url_is_1_to_2048_bytes check (octet_length(url) between 1 and 2048),
    constraint endpoints_types_are_given check (cardinality(types) between 1 and 100),
    constraint endpoints_has_1_to_10_secrets check (
        jsonb_typeof(secrets) = 'array' and jsonb_array_length(secrets) between 1 and 10),
    constraint endpoints_disabled_at_is_set_when_disabled check ((disabled_at is not null) = (status = 'disabled'))
);

create unique index idx_endpoints_url on holdfast.endpoints (coalesce(tenant, ''), url);

-- Every attempt to deliver an event to an endpoint: those that failed, and the one that was confirmed.
create view holdfast.webhook_attempts as
select d.endpoint, d.event, d.id as delivery, a.attempt, a.at, a.delivered, a.status, a.ms, a.address, a.error, a.response
from (
    select i.id, (i.payload ->> 'endpoint')::uuid as endpoint, (i.payload ->> 'event')::uuid as event, i.errors, null::jsonb as result,
           i.attempts, null::timestamptz as finished_at
    from holdfast.inbox i
    where i.kind = '@deliver' and i.payload ? 'endpoint'
    union all
    select a.id, (a.payload ->> 'endpoint')::uuid, (a.payload ->> 'event')::uuid, a.errors,
           case when a.status::text = 'completed' then a.result end, a.attempts, a.finished_at
    from holdfast.archive a
    where a.kind = '@deliver' and a.payload ? 'endpoint'
) d
cross join lateral (
    select (f.record ->> 'attempt')::int as attempt, (f.record ->> 'at')::timestamptz as at, false as delivered,
           (f.record -> 'details' ->> 'status')::int as status, (f.record -> 'details' ->> 'ms')::float8 as ms,
           f.record -> 'details' ->> 'address' as address,
           coalesce(nullif(f.record ->> 'message', ''), f.record ->> 'error') as error,
           f.record -> 'details' ->> 'response' as response
    from jsonb_array_elements(d.errors) as f (record)
    union all
    select d.attempts, d.finished_at, true, (d.result ->> 'status')::int, (d.result ->> 'ms')::float8, d.result ->> 'address', null,
           d.result ->> 'response'
    where d.result is not null
) a;
