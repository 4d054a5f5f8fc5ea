"""Recovery without an operator: chores that any worker may run, each at most once per interval across all of them.

    sweep         expired leases: pending again, dead letters when no attempt is left, or cancelled
    bury          pending rows without an attempt left, and dead letters that hand-written SQL left half done
    archive       rows that hand-written SQL completed, and cancelled rows whose attempt died
    expire        rows that have expired while they wait, and that nobody claims
    unblock       heads of ordered keys that are still blocked when nothing of their key is in processing
    disown        due rows of owned queues that their owner may not be able to run
    members       silent workers are marked as dead; those dead for long are deleted
    partitions    archive partitions a week ahead
    retention     partitions past archive_days, or the days that tasks say, dropped; such rows of the default partition
    forget        idempotency keys and once() markers past their horizon
    children      jobs that have ended without telling the workflow instance that waits for them
    journal       bursts of dead letters are noted; rows of the journal past journal_days are forgotten
    instances     what is left of workflow instances that have ended: steps, and signals that came while they ended
    gauges        what is too expensive to count on demand: depth, claim age and others
    minutes       what attempts did: after two days, ten minutes at a time; after two weeks, forgotten

Each host asks once per interval which chores are due: one small statement. For each of these, in one transaction, it
takes a transaction-scoped advisory lock, checks again when the chore last ran, works in a bounded batch, and notes that
it ran. While something is left, it goes on with the next batch, in a separate turn and transaction; after a second (a
sweep: ten) the other chores have their turn first. A host that dies in the middle leaves nothing locked and nothing
half done; in the next interval, another host does it. A failed chore has used its turn, too.

There is no sweep soon after an outage: every lease may have expired while the work goes on, and keepers must be able to
renew first. An outage is a failed connect, a call without an answer or with a late one, another server, or a
connection that was lost a long time after the last answer. An idle session that is ended while the server is there is
none.
"""
