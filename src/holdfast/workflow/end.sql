-- End instances that nothing waits for: each moves to the archive, with its steps and the signals that nothing has taken.
-- Takes    $1 ids in ascending order, $2 generations, $3 results (JSON text or null), $4 statuses (null: completed), $5 reasons,
--          $6 worker, $7 keep (as complete.sql), $8 steps that are not written yet (JSON objects with
--          commas between them), $9 may steps be stored?
-- Returns  how many have ended, how many of them after their lease had expired, and if not all have: which. The other
--          arrays may be shorter than the first: the rest is null. One that would complete, and was cancelled meanwhile, does
--          not end: it must be undone. One that ends as cancelled says why, as whoever cancelled it.
-- Locks    the rows, in order of id. Rows of "instances" that a signal's open transaction holds are skipped: the chore
--          "instances" removes them, with the signals.
-- Index    primary keys alone (see complete.sql). Steps are read per row, and not joined to what was deleted: that was
--          quadratic.
with ended as (
    delete from holdfast.inbox i
    using unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $7::int[], $8::text[], $9::boolean[])
          as c (id, generation, result, ended_as, reason, keep, given, stored)
    where i.id = any (array[c.id])
      and i.claimed_by = $6
      and i.lease_generation = c.generation
      and i.status::text = 'processing'
      and (c.ended_as is not null or i.cancel_requested_at is null)
    returning i.*, c.result, c.ended_as, c.reason, c.keep, c.given, coalesce(c.stored, true) as stored
),
waited as materialized (
    select e.id
    from ended e
    cross join lateral (
        select s.mail from holdfast.instances s where s.job_id = any (array[e.id]) for update skip locked
    ) s
),
archived as (
    insert into holdfast.archive ({{archived_columns}}, status, cancel_requested_at, last_error, result, finished_at,
                                  keep_days, steps)
    select {{archived_columns}}, coalesce(ended_as, 'completed')::holdfast.inbox_status, cancel_requested_at,
           coalesce(case when ended_as = 'cancelled' then headers ->> text 'holdfast.cancel_reason' end, reason, last_error),
           result::jsonb, holdfast.clock(), keep,
           -- Without stored steps, it may have got signals all the same.
           pg_catalog.concat('{"steps":[', case
               when stored or (select true from holdfast.instances s where s.job_id = ended.id)
               then pg_catalog.concat(pg_catalog.concat_ws(',', (
                        select pg_catalog.string_agg(holdfast.kept_step(s), ',' order by s.ordinal)
                        from holdfast.steps s
                        where s.job_id = ended.id
                          -- Of a step that is given, only its beginning can be stored: what has ended does not change.
                          and not (s.status = 'open' and pg_catalog.concat('[', given, ']')::jsonb @> pg_catalog.jsonb_build_array(
                              pg_catalog.jsonb_build_object('name', s.name, 'n', s.n)))), given),
                    '],"signals":', coalesce((
                        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
                                   'n', g.n, 'name', g.name, 'payload', g.payload, 'signal_id', g.signal_id,
                                   'sent_at', g.sent_at) order by g.n)::text
                        from holdfast.signals g
                        where g.job_id = ended.id and g.taken_by is null
                          -- Taken by one of the steps that come with the end.
                          and not pg_catalog.concat('[', given, ']')::jsonb @> pg_catalog.jsonb_build_array(
                              pg_catalog.jsonb_build_object('signal', g.n))), '[]'))
               else pg_catalog.concat(given, '],"signals":[]') end, '}')::jsonb
    from ended
    where coalesce(keep, 1) > 0
),
remembered as (
    update holdfast.dedupe d
    set expires_at = holdfast.clock() + make_interval(secs => coalesce(d.horizon, holdfast.setting('dedupe_horizon')::float8))
    from ended
    where ended.idempotency_key is not null and d.key = any (array[ended.idempotency_key])
),
no_steps as (
    delete from holdfast.steps s
    using ended e
    where e.stored and s.job_id = any (array[e.id])
),
no_signals as (
    delete from holdfast.signals g
    using waited w
    where g.job_id = any (array[w.id])
),
no_instances as (
    delete from holdfast.instances s
    using waited w
    where s.job_id = any (array[w.id])
)
select pg_catalog.count(*) as completed, pg_catalog.count(*) filter (where lease_expires_at < holdfast.clock()) as late,
       case when pg_catalog.count(*) < pg_catalog.cardinality($1::uuid[]) then array(select e.id from ended e) end as ids
from ended
