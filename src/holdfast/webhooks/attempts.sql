-- Attempts to deliver to an endpoint, newest first.
-- Takes    $1 endpoint, $2 since, $3 how many.
-- Reads    the inbox's deliveries, and the archive from $2 on.
select a.delivery, a.event, a.attempt, a.at, a.delivered, a.status, a.ms, a.address, a.error, a.response
from holdfast.webhook_attempts a
where a.endpoint = $1 and a.at >= $2
order by a.at desc
limit $3
