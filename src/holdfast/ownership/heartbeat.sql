-- Heartbeat. A draining worker stays draining; one that was marked as dead by housekeeping gets its earlier status back;
-- one that has left stays dead, even if this heartbeat was in progress when it left.
-- Takes    $1 workers, $2 their counters as JSON.
-- Returns  those that the registry knows, with their status: 'draining' may have been set by others, 'dead' has left.
with beat as (
    update holdfast.workers w
    set last_seen_at = holdfast.clock(),
        status = case when w.status <> 'dead' then w.status when w.metadata ? 'drained'::text then 'draining' else 'alive' end,
        metadata = w.metadata || pg_catalog.jsonb_build_object('counters', b.counters::jsonb)
    from unnest($1::text[], $2::text[]) as b (id, counters)
    where w.id = b.id and not coalesce(w.metadata ? 'left'::text, false)
    returning w.id, w.status
)
select w.id, coalesce(b.status, 'dead') as status
from holdfast.workers w
left join beat b on b.id = w.id
where w.id = any ($1)
