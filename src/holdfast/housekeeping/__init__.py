"""Recovery that needs nobody: chores that any worker may do, each at most once per interval across all of them.

    sweep         expired leases: pending again, or dead letters when no attempt is left
    bury          pending rows without an attempt left, and dead letters that hand-written SQL left half done
    archive       rows that hand-written SQL completed
    release       heads of ordered keys that are parked although nothing holds their key
    disown        due rows of owned queues that their owner may not be able to run
    members       workers that fell silent are dead; long-dead ones are forgotten
    partitions    archive partitions a week ahead
    retention     partitions older than archive_days dropped
    forget        idempotency keys and once() markers past their horizon

Each host asks once per interval which chores are due: one small statement. For a chore that is, it takes a
transaction-scoped advisory lock, looks again when it ran last, works in a bounded batch, and notes that it ran, in one
transaction. Whoever dies in the middle leaves nothing locked and nothing half done; the next interval finds
another to do it.

No sweep soon after a server start, a reconnect or an answer that was held up: after an outage every lease is out while
the work is still running, and its keepers come first.
"""
