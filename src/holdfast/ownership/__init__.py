"""Who is working: the registry of workers and their heartbeats.

A worker registers before its first claim, its keeper heartbeats for it, and it leaves when it stops. A heartbeat only
keeps `last_seen_at` fresh: it claims nothing, recovers nothing, and never turns a draining worker into a live one.
Leases recover rows; this registry says who is there.
"""
