-- One instance: where it stands, its steps and the signals that it has got. One that has ended, from the archive.
-- Takes    $1 id.
-- Returns  one row, or nothing. Steps and signals as JSON.
-- Index    primary keys, idx_archive_id.
select w.instance, w.job_id, w.workflow, w.version, w.state, w.since, w.waits, w.wake_at, w.dead_children,
       w.cancel_requested_at, w.parent_id, w.queue, w.claimed_by, w.runs, w.last_error, w.created_at,
       null::timestamptz as finished_at, null::text as result, w.payload::text as payload, w.errors::text as errors,
       coalesce((select pg_catalog.jsonb_agg(pg_catalog.to_jsonb(s) - 'job_id'::text order by s.ordinal)
                 from holdfast.steps s where s.job_id = w.job_id), '[]')::text as steps,
       coalesce((select pg_catalog.jsonb_agg(pg_catalog.to_jsonb(g) - 'job_id'::text order by g.n)
                 from holdfast.signals g where g.job_id = w.job_id), '[]')::text as signals
from holdfast.workflows w
where w.job_id = $1::text::uuid
union all
select a.idempotency_key, a.id, a.kind, a.payload_version, a.status::text, a.finished_at, null, null, '{}',
       a.cancel_requested_at, a.headers ->> 'holdfast.parent'::text, a.queue, a.claimed_by, a.lease_generation,
       a.last_error, a.created_at, a.finished_at, a.result::text, a.payload::text, a.errors::text,
       coalesce(a.steps -> 'steps'::text, '[]')::text, coalesce(a.steps -> 'signals'::text, '[]')::text
from holdfast.archive a
where a.id = $1::text::uuid
limit 1
