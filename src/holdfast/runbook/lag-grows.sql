-- From publishing to delivery, by minute
-- One route: its destination is slow. All routes: too few workers, or a slow database.
select route, date_trunc('minute', finished_at) as minute, count(*) as delivered,
       percentile_cont(0.5) within group (order by extract(epoch from lag)) as p50,
       percentile_cont(0.99) within group (order by extract(epoch from lag)) as p99
from holdfast.outbox
where status = 'completed' and finished_at > now() - interval '15 minutes' and replay = 0
group by route, minute
order by minute desc, route
