-- The deliveries of some events: of each route and endpoint that takes them now, and of the last hundred replays.
-- Takes    $1 events.
-- Returns  one row for each delivery that is still there.
-- Index    the primary key of the inbox and idx_archive_id: the ids of deliveries follow from what they are.
with wanted as materialized (
    select e.id as event, t.destination, t.shown, n.replay, holdfast.delivery_id(e.id, t.destination, n.replay) as id
    from holdfast.events e
    cross join lateral (
        select r.name as destination, r.name as shown
        from holdfast.routes r
        union all
        select p.id::text, 'webhooks to ' || p.url
        from holdfast.endpoints p
        where (p.tenant in ('*', e.tenant) or p.tenant is null and e.tenant is null) and holdfast.endpoint_wants(e.type, p.types)
    ) as t
    cross join lateral (
        select 0 as replay
        union all
        select s.number::int
        from (select case when q.is_called then q.last_value else 0 end as newest from holdfast.replays_seq q) as l
        cross join lateral generate_series(greatest(l.newest - 99, 1), l.newest) as s (number)
    ) as n
    where e.id = any ($1::uuid[])
)
select w.event, w.shown as destination, w.replay, d.id, d.status, d.attempts, d.max_attempts, d.available_at, d.finished_at,
       d.last_error, d.result, d.claimed_by
from wanted w
cross join lateral (
    select i.id, i.status::text, i.attempts, i.max_attempts, i.available_at, null::timestamptz as finished_at, i.last_error,
           null::jsonb as result, i.claimed_by
    from holdfast.inbox i
    where i.id = w.id
    union all
    (
        select a.id, a.status::text, a.attempts, a.max_attempts, a.available_at, a.finished_at, a.last_error, a.result, a.claimed_by
        from holdfast.archive a
        where a.id = w.id
        limit 1
    )
) d
order by w.event, w.shown, w.replay
