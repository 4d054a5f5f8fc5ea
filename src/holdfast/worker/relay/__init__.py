"""The relay: sends claimed deliveries to their destinations, in batches.

Each route is a post of the worker, beside that of its jobs: it claims by itself, so one destination that is away or
slow holds up no other. Claim, ledger, completer and keeper are those of jobs; only what happens in between differs:

    claiming ──▶ ready ──▶ load the events ──▶ transport.send ──▶ verdict ──▶ completer

    delivered                  completed
    refused                    a failed attempt: retried later, or a dead letter
    unknown: connection lost   handed back: no attempt is counted

On an ordered route, the events that wait behind a claimed one follow it under its hold, one after the other: a convoy.

While a destination is away, its route claims nothing. A row that lost its connection twice may be the reason for it. So
it is sent alone, and then a lost connection is a failed attempt.

In the ledger, a delivery never counts as started: if the process dies, it is handed back, and lost no attempt. What was
sent may arrive twice, under the same id.
"""
