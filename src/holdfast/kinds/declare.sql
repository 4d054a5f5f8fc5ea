-- Store what the code says about its kinds of jobs, unless another application has other tasks of the same names.
-- Takes    arrays, in ascending order of kinds: $1 kinds, $2 versions, $3 applications, $4 arguments as JSON; of the retry
--          policies (null: the settings) $5 bases, $6 factors, $7 caps, $8 jitters; $9 most snoozes (null: the setting);
--          $10 days for which completed jobs are kept (0: they are not; null: archive_days); $11 are they workflows?
-- Returns  kinds that belong to another application, which was seen lately: kind, application, its arguments, ours. If
--          there are any, nothing is stored.
-- Locks    the rows of the kinds that change, and of their keep_classes, in ascending order.
with ours as (
    select o.kind, o.version, o.app, o.arguments::jsonb as arguments, o.base, o.factor, o.cap, o.jitter, o.max_snoozes, o.keep_days,
           coalesce(o.workflow, false) as workflow
    from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::float8[], $8::float8[],
                $9::int[], $10::int[], $11::boolean[])
         as o (kind, version, app, arguments, base, factor, cap, jitter, max_snoozes, keep_days, workflow)
),
others as materialized (
    select k.kind, k.app, k.arguments as theirs, o.arguments as ours
    from holdfast.kinds k
    join ours o on o.kind = k.kind
    where k.app <> o.app and k.arguments <> o.arguments
      and k.seen_at > holdfast.clock() - interval '7 days'
),
stored as (
    insert into holdfast.kinds as k (
        kind, version, app, arguments, retry_base, retry_factor, retry_cap, retry_jitter, max_snoozes, keep_days, workflow,
        seen_at)
    select o.kind, o.version, o.app, o.arguments, o.base, o.factor, o.cap, o.jitter, o.max_snoozes, o.keep_days, o.workflow,
           holdfast.clock()
    from ours o
    where not exists (select from others)
    order by o.kind
    on conflict (kind) do update
    set version = excluded.version, app = excluded.app, arguments = excluded.arguments, retry_base = excluded.retry_base,
        retry_factor = excluded.retry_factor, retry_cap = excluded.retry_cap, retry_jitter = excluded.retry_jitter,
        max_snoozes = excluded.max_snoozes, keep_days = excluded.keep_days, workflow = excluded.workflow, seen_at = excluded.seen_at
    where k.version <= excluded.version
),
classes as (  -- of lower versions, too: their workers write rows with these numbers
    insert into holdfast.keep_classes (days, since, seen_at)
    select k.days, holdfast.clock(), holdfast.clock()
    from (select distinct o.keep_days as days from ours o where o.keep_days > 0) k
    where not exists (select from others)
    order by k.days
    on conflict (days) do update set seen_at = excluded.seen_at
)
select x.kind, x.app, x.theirs::text, x.ours::text
from others x
order by x.kind
