-- The version of the schema, the first migration that this release does not know and that is not compatible with it, and the
-- releases of the live workers.
-- Takes    $1 the schema version of this release.
select (select max(m.version) from holdfast.migrations m) as found,
       (select min(m.version) from holdfast.migrations m
        where m.version > $1::int and coalesce(m.oldest, m.version) > $1::int) as refused,
       array(
           select distinct coalesce(w.metadata ->> 'version', '')
           from holdfast.workers w
           where w.status <> 'dead' and w.last_seen_at > holdfast.clock() - interval '30 seconds'
           order by 1
       ) as releases,
       (select count(*) from holdfast.workers w
        where w.status <> 'dead' and w.last_seen_at > holdfast.clock() - interval '30 seconds')::int as workers
