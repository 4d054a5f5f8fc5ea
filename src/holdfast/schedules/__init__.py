"""Schedules: jobs that are enqueued by the clock, exactly one per slot across all hosts.

A *slot* is an instant at which a schedule wants a job. `timing` says which instants these are. A slot depends on the
schedule alone, never on when a host looked. `policy` says, for an instant, which of the open slots fire and which were
missed. Both are pure.

The table `holdfast.schedules` is the memory: which schedules exist, and how far each has come (`last_slot`). A schedule
is in it because the code of a worker declares it (source 'code'), or because it was added at run time (source 'row'):
by `hf.schedule(…)`, by `holdfast schedule add`, or by a plain INSERT from any language.

`firing` is a loop, one per host, beside housekeeping. It sleeps until the soonest schedule is due, 10 s at most. Then:

    look        read what is due, and the database's time (due.sql). Nothing is locked
    decide      compute the slots from what was read (policy.step)
    fire        in one statement: lock the schedule, or skip it if it is locked; check that it is as it was read;
                enqueue a job for each slot; raise last_slot (functions/fire_schedule.sql)

All hosts do this at the same time, without knowing of each other. The second one finds the schedule locked or of a
newer revision, and does nothing. If a host dies before the statement commits, nothing was written, and another host
fires the slot a moment later; if it dies after the commit, the slot is done. The slot is also in the idempotency key of
its job, `schedule:NAME:SLOT`. So no slot gets a second job if the clock was ahead and a schedule is reset, or if it is
removed and added again.

The time is the database's. If its clock is set forward, the slots in between are open, and the policy decides about
those that are late. If it is set back, nothing fires twice, and nothing fires until the clock has reached last_slot
again or an operator resets the schedule.

A schedule of the code is fired only by workers whose code declares exactly the same (`digest`). So one that was removed
from the code stops with the last worker that has it, and is listed as "not in code since". If two releases declare it
differently, the newest start wins, and workers of the other release do not fire it. A declaration that no worker has
had for 100 s is replaced by that of any worker that has another one.

A schedule that cannot fire, such as a row with a bad cron expression, says why in its column `error`, and is retried
every 10 s. It does not delay the others, because each is fired in a separate transaction.

NOTIFY is not needed. A change is seen within 10 s, and the slots until then are not lost: they count from `since`.
"""
