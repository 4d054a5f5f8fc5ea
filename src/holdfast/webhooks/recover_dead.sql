-- Make dead letters of an endpoint pending again, with a full set of attempts.
-- Takes    $1 endpoint, $2 those that died since, $3 who does it.
-- Returns  how many.
-- Locks    the endpoint, shared, then the dead letters, in order of id, skipping locked ones.
-- Index    idx_inbox_dead, then the primary key.
with status as materialized (
    select max(e.status) as status
    from (select p.status from holdfast.endpoints p where p.id = $1 for share) e
),
dead as materialized (
    select i.id
    from holdfast.inbox i
    where i.status = 'dead_letter' and i.dead_at >= $2::timestamptz and i.kind = '@deliver'
      and i.payload ->> 'endpoint'::text = $1::uuid::text
      and (select s.status from status s) is not null
    order by i.id
    for update of i skip locked
),
revived as (
    update holdfast.inbox i
    set status = 'pending',
        queue = case (select s.status from status s) when 'active' then 'out.webhooks.endpoints' else 'hold.' || $1::uuid::text end,
        available_at = clock_timestamp(),
        attempts = 0,
        crashes = 0,
        snoozes = null,
        dead_at = null,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null,
        cancel_requested_at = null
    from dead
    where i.id = any (array[dead.id])
    returning i.queue
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, count, details)
    select holdfast.clock(), 'endpoint.recovered', $1::uuid::text, $3::text, count(*), '{"of": "dead letters"}'
    from revived
    having count(*) > 0
)
select count(*) as revived, case when count(*) > 0 then holdfast.wake(min(r.queue), null, null, count(*)::int) end as woken
from revived r
