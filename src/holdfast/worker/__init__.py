"""The worker: claims, runs and ends jobs, and what it does when something fails.

    holdfast worker                         async with hf.worker():
    ┌ supervisor process ──────────────┐    ┌ the application's process ───────┐
    │ keeper: renews, heartbeats,      │    │ keeper, in a separate thread     │
    │         housekeeping             │    │                                  │
    └──┬──────────────── ledger ───────┘    └──┬──────────────── ledger ───────┘
    ┌ worker process ──────────────────┐       │
    │ claim ─▶ ready ─▶ hands ─▶ ending│       └ the same, on the application's loop
    └──────────────────────────────────┘
    ┌ isolation process, on demand ────┐
    │ the same, for suspects only      │
    └──────────────────────────────────┘

The worker writes what it holds into the ledger, memory that the keeper reads without its help. The keeper renews
exactly that. So a handler that blocks the event loop or holds the GIL keeps its lease until its timeout. A process that
is stopped or dead does not.

    process killed          the supervisor notices at once, hands its rows back and starts another; what had started is
                            a suspect now and runs in isolation, beside all other work
    process stopped         not renewed; its leases expire; when it resumes, it sees that and writes nothing
    stopped, or its loop    after two seconds the keeper recalls what it has not started; then it marks it as absent, so
      blocked               that others get the buckets that it owns
    supervisor killed       its processes end with it; their leases expire
    supervisor stopped      nothing is renewed; the processes stop claiming, and treat expired leases as lost
    handler over timeout    cancelled; if it cannot be cancelled, its process is killed after a grace period
    handler that computes   can ask for a separate process, which can be killed, and can die, by itself
    server away             everything is retried until it answers
    server silent           the same; but a lease that could not be renewed in time is lost: others may have the row
    server rejects us       the same: others may be served

Embedded in an application, there is only one process: a thread renews, and a handler that holds the GIL for longer
than the lease can block it; and suspects run between other jobs, isolated for a moment at most.

    engine             one worker: wires the rooms below
    claiming           when to look for work, and how much to take
    attempts           run what was claimed, and write how it ended
    handler_processes  handlers that asked for a process
    flows              another way to run what was claimed: workflow instances
    relay              sends events, instead of running what was claimed
    leases             the ledger, and the keeper that renews what is in it
    waking             the listener: wakes workers that sleep
    numbers            what is counted by queue and kind, for metrics
    embedded           a worker inside an application; `holdfast.processes` has the programs of `holdfast worker`
    served, settings   what a worker needs from an application, and its options
    lifespan           the application's code around a worker
    logs, log_lines    the job of every log record, formats; what the log says
"""
