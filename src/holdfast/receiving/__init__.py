"""Messages from others: each becomes one job, however often it is delivered.

`arrivals` reads a message and says which job it becomes, `storing` stores the jobs under the ids of their messages.
`requests`, `gathering` and `asgi` are for webhooks: they verify a request before it is read, and answer after the
commit. `consuming` is for brokers: it fetches, stores, and acknowledges after the commit.
"""
