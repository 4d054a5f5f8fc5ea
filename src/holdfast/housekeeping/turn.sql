-- Is this chore due? Asked by the host that has its lock.
-- Takes    $1 chore, $2 interval in seconds, $3 the same if its last run left something, $4 when we noted a run that we
--          continue (null: none); if another host has run it since then, that host continues.
-- Returns  if it is: floor, the time, when the server was started, how long it has been up, and the mark of the last run.
--          Otherwise nothing.
select c.floor, holdfast.clock(), pg_postmaster_start_time() as started,
       extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 as up, c.result ->> 'mark'::text as mark
from (select) as always
left join holdfast.chores c on c.name = $1
where c.ran_at is null
   or c.ran_at = $4::timestamptz
   or c.ran_at > holdfast.clock()
   or c.ran_at <= holdfast.clock() - make_interval(secs => case when c.result @> '{"more": true}' then $3::float8 else $2::float8 end)
