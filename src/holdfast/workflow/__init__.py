"""Workflows as rows: instances, steps, signals.

An instance is an inbox row whose kind is the workflow's name; claim, lease, sweep, order and pause are the inbox's.
Starting one is an enqueue. Beside the row:

    steps       what it has done, and the timers, waits and children that it has begun
    signals     what was sent to it
    instances   its mail, and what it waits for; written when it first parks, or is signalled
    archive     at the end, steps and unread signals become archive.steps

A parked instance is `pending` with `available_at` at its earliest timer, or a hundred years ahead. No wake-up is lost:
`instances.mail` counts everything that a parked instance must see, and the row lock of `instances` puts signals and
parking in order. Park first: the signal waits for its commit, and finds the parked row in a statement of its own.
Signal first: the mail differs, and the instance is run again at once. A signal whose transaction is open locks the row:
then the instance is parked for a moment only. Locks are taken in the order instances, then inbox; a signal never locks
the inbox row of a running instance, which must be renewed and ended while the signal's transaction is open.

`parked_generation` is the hold that parked it. A claim raises the row's generation, so what `instances` says about
waiting is stale from then on, and nothing has to be reset.
"""
