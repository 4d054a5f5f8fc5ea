-- Put the schedules of our code into the table, and say that a worker has them.
-- Takes    $1 schedules as JSON, by the names of the columns; $2 are ours the ones that count? True when a worker starts: the
--          newest start wins. Else only if no worker has had the stored one in its code for $4 seconds; $3 seconds
--          after which to say again that a worker has it.
-- Returns  name, and whose it is: 'ours' or 'other' (another declaration counts), 'taken' (a row from run time has the name).
-- Locks    the schedules that change.
with ours as materialized (
    select o.*, s.name is not null as stored, s.source as stored_source, s.digest as stored_digest,
           s.seen_at as stored_seen_at
    from pg_catalog.jsonb_populate_recordset(null::holdfast.schedules, $1::text::jsonb) as o
    left join holdfast.schedules s on s.name = o.name
),
put as (
    insert into holdfast.schedules as s (
        name, source, kind, args, options, cron, every, tz, missed, grace, jitter, since, digest, seen_at)
    select o.name, 'code', o.kind, o.args, o.options, o.cron, o.every, o.tz, o.missed, o.grace, o.jitter,
           holdfast.clock(), o.digest, holdfast.clock()
    from ours o
    where not o.stored
       or o.stored_source = 'code'
          and case when o.stored_digest = o.digest
                   then o.stored_seen_at < holdfast.clock() - make_interval(secs => $3::float8)
                        or o.stored_seen_at > holdfast.clock() + make_interval(secs => $3::float8)
                   else $2::boolean or o.stored_seen_at < holdfast.clock() - make_interval(secs => $4::float8) end
    order by o.name
    on conflict (name) do update
        set kind = excluded.kind, args = excluded.args, options = excluded.options, cron = excluded.cron,
            every = excluded.every, tz = excluded.tz, missed = excluded.missed, grace = excluded.grace,
            jitter = excluded.jitter, digest = excluded.digest, seen_at = excluded.seen_at
        where s.source = 'code'
    returning s.name
)
select o.name,
       case when p.name is not null or (o.stored_source = 'code' and o.stored_digest = o.digest) then 'ours'
            when o.stored_source = 'row' then 'taken' else 'other' end as whose
from ours o
left join put p on p.name = o.name
