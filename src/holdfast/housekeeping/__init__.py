"""Recovery that needs nobody: chores that any worker may do, each at most once per interval across all of them.

    sweep         expired leases: pending again, dead letters when no attempt is left, failed when they were cancelled
    bury          pending rows without an attempt left, and dead letters that hand-written SQL left half done
    archive       rows that hand-written SQL completed, and cancelled ones whose attempt died
    unblock       heads of ordered keys that are blocked although nothing holds their key
    disown        due rows of owned queues that their owner may not be able to run
    members       workers that fell silent are dead; long-dead ones are forgotten
    partitions    archive partitions a week ahead
    retention     partitions older than archive_days dropped, and such rows of the default partition
    forget        idempotency keys and once() markers past their horizon

Each host asks once per interval which chores are due: one small statement. For a chore that is, it takes a
transaction-scoped advisory lock, then looks again when it ran last, works in a bounded batch, and notes that it ran, in
one transaction. While something is left it goes on with the next batch, in a turn and a transaction of its own; after a
second (a sweep: ten) the other chores have their turn first. Whoever dies in the middle leaves nothing locked and
nothing half done; the next interval finds another to do it. A chore that failed has had its turn, too.

No sweep soon after an outage: then every lease is out while the work is still running, and its keepers come first. An
outage is a connect that failed, a call without an answer or with a late one, another server, or a connection that was
lost a long time after the last answer; not an idle session that something ended while the server was there.
"""
