"""Statements, connections, and the callers' transactions.

    statements   .sql files, with the name of the schema filled in
    urls         the database URL: where it comes from, which parameters it can have
    database     one installation, and how to connect to it
    pooler       what is different behind a transaction pooler
    link         one connection that reconnects by itself, every call with a deadline
    connections  the few connections for calls without a caller's connection
    callers      the open connections of callers: asyncpg, psycopg, SQLAlchemy, Django
    portal       an event loop in a thread, for synchronous code

Correctness never depends on session state. The planner settings of a worker's connection are hints, which keep plans
that were made for an empty table good for a full one.
"""
