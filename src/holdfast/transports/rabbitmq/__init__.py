"""RabbitMQ: events to an exchange with publisher confirms, and messages from a queue.

`sending` is the destination and `consuming` the source. `link` is what both use: the connection.
"""

from .consuming import RabbitMQConsumer
from .sending import RabbitMQ

__all__ = ["RabbitMQ", "RabbitMQConsumer"]
