-- Is it this chore's turn, and ours to do it? Inside a transaction, whose end gives the lock back.
-- Takes    $1 chore, $2 name of its lock, $3 interval in seconds.
-- Returns  floor, the time, and how long the server has been up, when it is; nothing otherwise.
select c.floor, holdfast.clock(), extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 as up
from (select pg_try_advisory_xact_lock(pg_catalog.hashtextextended($2, 0)) as taken offset 0) as lock
left join holdfast.chores c on c.name = $1
where lock.taken
  and (c.ran_at is null or c.ran_at <= holdfast.clock() - make_interval(secs => $3) or c.ran_at > holdfast.clock())
