"""Statements, connections, and the callers' transactions.

    statements   .sql files with the schema's name put in
    database     where the server is, and how to connect to it
    pooler       what is different behind a transaction pooler
    link         one connection that comes back by itself, every call under a deadline
    callers      other people's open connections: asyncpg, psycopg, SQLAlchemy, Django
    portal       an event loop in a thread, for synchronous code

Nothing here relies on session state for correctness. The planner settings of a worker's connection are hints: they
keep a plan that was right for an empty table right for a full one.
"""
