-- When the next job is due that waits for its time. What waits for a signal alone has none: it is due in 100 years.
-- Takes    $1 now.
-- Returns  the time, or null.
select min(i.available_at) as due
from holdfast.inbox i
where i.status = 'pending' and i.available_at > $1::timestamptz and i.available_at < $1::timestamptz + interval '50 years'
