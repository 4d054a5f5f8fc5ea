"""Kafka: events to topics with an idempotent producer, and messages from topics as a member of a group.

`sending` is the destination and `consuming` the source. `link` is what both use: how a client is made.
"""

from .consuming import KafkaConsumer
from .sending import Kafka

__all__ = ["Kafka", "KafkaConsumer"]
