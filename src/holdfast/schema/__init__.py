"""The schema in the database: numbered, named, forward-only migrations, and the runner that applies them.

    migrations/0001_foundation.sql   applied in order, each in its own transaction, under one lock
    holdfast.migrations              which were applied, and when

Two runners at the same time are safe: the second waits for the lock and finds nothing to do. The runner rejects a
schema that is newer than this release; a worker does, too, unless the schema is marked compatible. Statements wait for
locks only briefly and then retry, so that a migration never waits behind a long transaction while the whole application
waits behind the migration.
"""
