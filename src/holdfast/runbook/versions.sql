-- The version of the schema, and the releases of the workers
-- Finish the deploy: migrate, then renew the older workers.
select 'schema' as what, version::text as version, 1 as count, applied_at as since
from holdfast.migrations
where version = (select max(version) from holdfast.migrations)
union all
select 'workers', coalesce(metadata ->> 'version', '(none)'), count(*)::int, min(started_at)
from holdfast.workers
where status <> 'dead' and last_seen_at > now() - interval '30 seconds'
group by metadata ->> 'version'
order by 1, 2
