"""The schema in the database: numbered, named, forward-only migrations, and the runner that applies them.

    migrations/0001_foundation.sql   applied in order, each in a transaction of its own, under one lock
    holdfast.migrations              which were applied, and when

Two runners at once are safe: the second waits for the lock and finds nothing left to do. A schema that is newer than
this release is refused, by the runner and by the worker. Statements wait for locks only briefly and try again, so that
a migration never queues behind a long transaction with the whole application queued behind it.
"""
