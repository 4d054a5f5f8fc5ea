"""The life of one job, in order: enqueue, claim, renew, then one of complete, fail, snooze, hand back; cancel, revive.

                      ┌─ snooze, hand back (attempt given back) ─┐
                      ▼                                          │
    enqueue ──▶ pending ──claim──▶ processing ──complete──▶ archive (completed, failed, cancelled)
                      ▲                │
                      ├── fail, sweep ─┤ after the backoff, while attempts are left
                      │                ▼
                      └── revive ── dead_letter

Invariants:
- Every write about a claimed row names (id, claimed_by, lease_generation) and that it is processing. Zero rows means
  the lease is lost; nothing overrides that.
- Attempts are counted at claim, so a job that kills its process is bounded too.
- Whoever makes a row pending again writes an `available_at` of at least the present: the claim floor relies on it.
- Statements that write several rows take their locks in order of id, or skip what is locked.

When things fail: a worker that dies leaves its rows processing until their lease runs out and housekeeping sweeps
them; its supervisor, when it lives, hands them back at once.
"""
