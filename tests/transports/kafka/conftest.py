"""Topics of each test's own, in librdkafka's mock cluster."""

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record
from tests.support.brokers import fresh
from tests.support.brokers.kafka import KafkaCluster

from holdfast.transports.kafka import Kafka, KafkaConsumer


class Topics:
    """`<name>.order.paid`, with one partition."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.name = fresh()
        self.paid = f"{self.name}.order.paid"
        cluster.create(self.paid)

    def sender(self, **options: Any) -> Kafka:
        return Kafka(self.cluster.url, f"{self.name}.{{type}}", **options)

    def consumer(self, topics: str | None = None, **options: Any) -> KafkaConsumer:
        # The mock lets a member that joins again wait for others, almost as long as a session lasts.
        config = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
        return KafkaConsumer(self.cluster.url, topics or self.paid, f"{self.name}-books", config=config, **options)

    def stored(self, topic: str | None = None, partitions: int = 1) -> list[Record]:
        """All records of a topic, partition by partition."""
        reader = Consumer({"bootstrap.servers": self.cluster.url, "group.id": fresh(), "log_level": 2})
        found: list[Record] = []
        for partition in range(partitions):
            _, end = reader.get_watermark_offsets(TopicPartition(topic or self.paid, partition), timeout=30)
            reader.assign([TopicPartition(topic or self.paid, partition, 0)])
            last = -1
            while last < end - 1:
                record = reader.poll(30)
                assert record is not None and record.error() is None
                last = record.offset() or 0
                found.append(record)
        reader.close()
        return found

    def bodies(self) -> list[Any]:
        return [record.value() for record in self.stored()]


@pytest.fixture
def topics(kafka_cluster: KafkaCluster) -> Topics:
    return Topics(kafka_cluster)
