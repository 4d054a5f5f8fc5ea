-- Due jobs that no live worker can run, by queue, kind and version, why, and which application declared the kind: among the
-- oldest of each lane, so the cost is bounded. unclaimable.sql counts them all.
-- Takes    $1 most rows to look at per lane.
-- Index    see holdfast.unclaimable().
select u.queue, u.kind, u.version, u.rows, u.since, u.reason, u.app, u.more
from holdfast.unclaimable(array(select q from holdfast.waiting_queues() q), $1::int) u
