-- Attempts to deliver the newest events to an endpoint, newest first, without replays: attempts.sql has all, and reads the archive.
-- Takes    $1 endpoint, $2 how many events, $3 how many attempts.
-- Index    the primary keys of the events and of the inbox, idx_archive_id: the ids of deliveries follow from what they are.
select a.delivery, a.event, a.attempt, a.at, a.delivered, a.status, a.ms, a.address, a.error, a.response
from holdfast.webhook_attempts a
where a.endpoint = $1
  and a.delivery = any (array(
      select holdfast.delivery_id(n.id, $1::uuid::text, 0)
      from (select e.id from holdfast.events e order by e.id desc limit $2::int) n))
order by a.at desc
limit $3
