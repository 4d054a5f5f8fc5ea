-- The view `outbox` names the route of deliveries that wait in hold.<endpoint>: that of all deliveries to endpoints.

create or replace view holdfast.outbox as
select d.id as delivery, case when starts_with(d.queue, 'hold.') then 'webhooks.endpoints' else substr(d.queue, 5) end as route,
       (d.payload ->> 'event')::uuid as event, e.source, e.type, e.version, e.key, e.tenant, e.published_at, d.status, d.attempts,
       d.max_attempts, d.available_at, d.finished_at,
       case when d.status = 'completed' then d.finished_at - e.published_at
            when d.finished_at is null then holdfast.clock() - e.published_at end as lag,
       (d.payload ->> 'endpoint')::uuid as endpoint, coalesce((d.payload ->> 'replay')::int, 0) as replay, d.last_error, d.result,
       d.errors, e.headers, e.data
from (
    select i.id, i.queue, i.payload, i.status::text, i.attempts, i.max_attempts, i.available_at, null::timestamptz as finished_at,
           i.last_error, null::jsonb as result, i.errors
    from holdfast.inbox i
    where i.kind = '@deliver'
    union all
    select a.id, a.queue, a.payload, a.status::text, a.attempts, a.max_attempts, a.available_at, a.finished_at, a.last_error, a.result,
           a.errors
    from holdfast.archive a
    where a.kind = '@deliver'
) d
left join holdfast.events e
    on e.id = (d.payload ->> 'event')::uuid
   and e.published_at >= (d.payload ->> 'on')::date::timestamp at time zone 'UTC'
   and e.published_at < ((d.payload ->> 'on')::date + 1)::timestamp at time zone 'UTC';
