-- What is stored of instances: their steps, the signals that no step has taken, and their mail, all of one moment.
-- Takes    $1 ids.
-- Returns  id, and as JSON what History in model/flow.py says, without what is null. Whether a timer is due is decided here,
--          by the only clock.
-- Locks    nothing.
-- Index    primary keys, once per id. The order comes from Python: sorted here, a batch would be sorted as a whole.
select l.id, pg_catalog.concat('{"mail":', coalesce(i.mail, 0), case when i.paused_at is not null then ',"paused":true' end,
                               ',"steps":[', s.steps, '],"signals":', coalesce(g.signals, '[]'), '}')
from pg_catalog.unnest($1::uuid[]) as l (id)
left join lateral (
    select i.mail, i.paused_at from holdfast.instances i where i.job_id = any (array[l.id]) limit 1
) i on true
left join lateral (
    -- Put together as text: see kept_step.sql.
    select pg_catalog.string_agg(pg_catalog.concat(
               '{"name":', pg_catalog.to_json(s.name), ',"n":', s.n, ',"ordinal":', s.ordinal, ',"kind":"', s.kind,
               '","status":"', s.status, '","attempts":', s.attempts, text ',"result":' || s.result::text,
               text ',"digest":' || s.digest::text, text ',"wake_at":' || pg_catalog.to_json(s.wake_at)::text,
               case when s.wake_at <= holdfast.clock() then ',"due":true' end, text ',"child_id":"' || s.child_id::text || text '"',
               case when s.status = 'open' then text ',"age":' || extract(epoch from holdfast.clock() - s.started_at)::float8::text end,
               case when s.errors is not null
                    then text ',"error":' || pg_catalog.to_json(pg_catalog.concat_ws(
                             ': ', s.errors -> -1 ->> text 'error', nullif(s.errors -> -1 ->> text 'message', text '')))::text end,
               '}'), ',') as steps
    from holdfast.steps s
    where s.job_id = any (array[l.id])
) s on true
left join lateral (
    select pg_catalog.json_agg(pg_catalog.json_build_object('n', g.n, 'name', g.name, 'payload', g.payload))::text as signals
    from holdfast.signals g
    where i.mail is not null and g.job_id = any (array[l.id]) and g.taken_by is null
) g on true
