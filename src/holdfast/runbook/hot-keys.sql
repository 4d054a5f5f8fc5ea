-- The ordered keys with the most waiting jobs
-- Divide the key, or make it unordered: docs/fleet.md, hot keys. What holds it now: holdfast runbook key-stuck.
select queue, partition_key as key, count(*) as waiting, now() - min(created_at) as age
from holdfast.inbox
where ordered and status in ('pending', 'blocked')
group by queue, partition_key
having count(*) > 1
order by waiting desc
limit 20
