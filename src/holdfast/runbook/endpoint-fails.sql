-- Webhook endpoints that are paused, disabled or failing
-- holdfast endpoint attempts ENDPOINT shows each request; enable or resume it when its owner has fixed it.
select p.id, p.tenant, p.url, p.status, p.failing_since, p.disabled_at, p.disabled_reason,
       (select count(*) from holdfast.inbox i where i.queue = 'hold.' || p.id) as held
from holdfast.endpoints p
where p.status <> 'active' or p.failing_since is not null
order by p.disabled_at desc nulls last, p.failing_since
