"""The life of one job, in order: enqueue, claim, renew, then one of complete, fail, snooze, hand back; cancel, revive.

                      ┌─ snooze, hand back (attempt given back) ─┐
                      ▼                                          │
    enqueue ──▶ pending ──claim──▶ processing ──complete──▶ archive (completed, failed, cancelled)
                      ▲                │
                      ├── fail, sweep ─┤ after the backoff, while attempts are left
                      │                ▼
                      └── revive ── dead_letter

Invariants:
- Every write about a claimed row names (id, claimed_by, lease_generation) and that it is processing. Zero rows
  means that the lease is lost; nothing overrides that.
- Attempts are counted at claim, so a job that kills its process has a limited number of them, too.
- A write that makes a row pending again sets an `available_at` of now or later: the claim floor relies on it.
- Statements that write several rows take their locks in order of id, or skip what is locked.

The rows of a worker that dies stay processing until their leases expire and housekeeping sweeps them. If its supervisor
lives, it hands them back at once.
"""
