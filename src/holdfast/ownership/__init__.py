"""Which workers exist, and which buckets they own.

A worker registers before its first claim, its keeper heartbeats for it, and it leaves when it stops. A heartbeat only
keeps `last_seen_at` up to date: it claims nothing, recovers nothing, and never makes a draining worker live again.
Leases recover rows; the registry only lists workers.

    registry ──▶ live on a queue: alive, seen within 30 s ──▶ ring ──▶ the buckets of each

Each worker builds the same ring from the registry. So no component assigns shares, and no share can be lost: a worker
that goes silent is not a member 30 seconds later, and the others own more after their next refresh. Views differ for at
most one refresh. That is safe, because ownership only decides where a claim looks; locks, leases and the guard of the
key decide which worker gets a row.
"""
