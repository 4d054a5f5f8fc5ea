"""Relay: events of 300 bytes from a full outbox to real brokers, confirmed; the lag under an ordinary load; an outage.

One worker process, the broker on the same machine and the same cores. A rate counts from the first claim until no
delivery is left, and the broker must then have every event.
"""
