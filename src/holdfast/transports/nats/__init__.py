"""NATS JetStream: messages that the stream has confirmed, and those that a durable consumer gets.

The client's own reconnection is off: what was sent on a lost connection has an unknown fate, and only the worker
knows when to send it again. The client's `publish_async` is not used, because its futures stay pending when the
connection dies and when the stream answers with an error; the answers come to an inbox of our own.

`sending` is the destination and `consuming` the source. `link` is what both use: the connection.
"""

from .consuming import NatsConsumer
from .sending import Nats

__all__ = ["Nats", "NatsConsumer"]
