"""The outbox: events that commit with the business change, and reach other services.

An event is stored once, in `holdfast.events`, in the transaction that publishes it. For each route that takes it, a
delivery is stored with it: a row of the inbox, of the kind `@deliver`, in the queue `out.<route>`. So claim, lease,
fence, order, retries, dead letters and archive are the inbox's. A delivery refers to its event, and does not repeat it:
a row is rewritten by its claim and its end, and an event may have many deliveries.

    publish   events and deliveries, in one statement          publish.py, schema/functions/publish_events.sql
    routes    which events go where: rows, from the code       routes.py
    loading   the events of claimed deliveries                 loading.py
    replay    deliveries of events that were published before  replay.py

The worker sends them: see worker/relay.
"""

from __future__ import annotations

KIND = "@deliver"
"""The kind of a delivery."""
