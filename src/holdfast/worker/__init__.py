"""The worker: what claims, runs and ends jobs, and survives what happens to it meanwhile.

    holdfast worker                         async with hf.worker():
    ┌ supervisor process ──────────────┐    ┌ the application's process ───────┐
    │ keeper: renews, heartbeats,      │    │ keeper, in a thread of its own   │
    │         housekeeping             │    │                                  │
    └──┬──────────────── ledger ───────┘    └──┬──────────────── ledger ───────┘
    ┌ worker process ──────────────────┐       │
    │ claim ─▶ ready ─▶ hands ─▶ ending│       └ the same, on the application's loop
    └──────────────────────────────────┘
    ┌ isolation process, on demand ────┐
    │ the same, for suspects only      │
    └──────────────────────────────────┘

The worker writes what it holds into the ledger, memory that the keeper reads without its help. The keeper renews
exactly that. A handler that blocks the event loop or holds the GIL therefore keeps its lease, until its timeout; a
process that is stopped or dead does not.

    process killed          the supervisor sees it, hands its rows back, starts another; what had started is a suspect
                            now and runs in isolation, beside all other work
    process stopped         not renewed; its leases run out; when it wakes, it finds them past and writes nothing
    stopped, or its loop    after two seconds the keeper recalls what it has not started, and says that it is absent, so
      blocked               that others have the buckets it owns
    supervisor killed       its processes end with it; leases run out
    supervisor stopped      nobody renews; the processes stop claiming, and give up what passes its deadline
    handler over its time   cancelled; one that cannot be cancelled costs its process after a grace period
    handler that computes   may ask for a process of its own, which can be killed, and can die, alone
    server gone             a pause: everything is tried again until it answers
    server silent           the same; but what could not be renewed for a lease is given up, for others may have it
    server refuses us       the same: others may be served

Embedded in an application there is one process only: a thread renews, which a handler that holds the GIL for longer
than the lease can starve; and suspects run between other jobs, isolated for a moment at most.

    engine             one worker: wires the rooms below
    claiming           when to look for work, and how much to take
    attempts           run what was claimed, and write how it ended
    handler_processes  handlers that asked for a process
    leases             the ledger, and the keeper that renews what is in it
    waking             the listener: calls workers that sleep
    embedded           a worker inside an application; `holdfast.processes` has the programs of `holdfast worker`
    served, settings   what a worker needs to know of an application, and what it was told
"""
