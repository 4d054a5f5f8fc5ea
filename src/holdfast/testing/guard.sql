-- Is this a database for tests?
-- Takes    $1 this host, $2 this process.
-- Returns  its name, whether it is marked as one, the live workers of other processes, whether the clock is replaced.
select pg_catalog.current_database()::text as name,
       coalesce(holdfast.setting('testing') = 'true'::jsonb, false) as marked,
       array(
           select w.id
           from holdfast.workers w
           where w.status = 'alive'
             and w.last_seen_at > holdfast.clock() - interval '30 seconds'
             and (w.metadata ->> 'host'::text is distinct from $1::text or w.metadata ->> 'pid'::text is distinct from $2::text)
       ) as workers,
       exists (select from holdfast.functions f where f.name = 'clock' and f.digest = 'testing') as replaced
