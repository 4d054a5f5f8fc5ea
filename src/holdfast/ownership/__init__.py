"""Who is working, and who owns which buckets.

A worker registers before its first claim, its keeper heartbeats for it, and it leaves when it stops. A heartbeat only
keeps `last_seen_at` fresh: it claims nothing, recovers nothing, and never turns a draining worker into a live one.
Leases recover rows; this registry says who is there.

    registry ──▶ live on a queue: alive, seen within 30 s ──▶ ring ──▶ the buckets of each

From the registry every worker makes the same ring by itself, so nobody hands out shares and no share can be lost:
whoever goes silent is no member 30 seconds later, and whoever looks then owns more. Views differ for one refresh at
most. That is allowed, because ownership only decides where a claim looks; who gets a row is decided by its lock, its
lease and the guard of its key.
"""
