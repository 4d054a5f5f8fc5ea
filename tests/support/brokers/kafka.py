"""librdkafka's mock cluster, in a process of its own: it speaks Kafka's protocol over TCP, and holds all in memory.

It shows that requests, reports, errors, offsets and outages are handled. It shows nothing of durability (a killed one
comes back empty, and at other ports), of replication, or of rebalancing between many consumers.
"""

import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.brokers import Broker

PRODUCE = 0
"""The number of the request, for `fail`."""


class KafkaCluster(Broker):
    def __init__(self) -> None:
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: left out what needs it")
        super().__init__("kafka")

    @property
    def url(self) -> str:
        """The servers."""
        return self._ask("servers")

    def command(self) -> Sequence[str]:
        return [sys.executable, str(Path(__file__).with_name("kafka_cluster.py")), str(self.port)]

    def answers(self) -> bool:
        try:
            return bool(self.url)
        except OSError:
            return False

    def down(self) -> None:
        """Close all connections and accept none, until `up`. The topics stay."""
        assert self._ask("down") == "0"

    def up(self) -> None:
        """Accept connections again, at the same ports."""
        assert self._ask("up") == "0"

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic. One that nobody created is created at its first use, with four partitions."""
        assert self._ask(f"create {topic} {partitions}") == "0"

    def set_error(self, topic: str, code: int) -> None:
        """Answer questions about the topic with this error; 0: no longer."""
        assert self._ask(f"error {topic} {code}") == "0"

    def fail(self, request: int, code: int, times: int = 1) -> None:
        """Answer the next requests of this kind with this error."""
        assert self._ask(f"fail {request} {code} {times}") == "0"

    def slow(self, milliseconds: int) -> None:
        """Answer each request after this time."""
        assert self._ask(f"slow {milliseconds}") == "0"

    def _ask(self, line: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(f"{line}\n".encode())
            return connection.makefile().readline().strip()


@pytest.fixture(scope="session")
def kafka_of_session() -> Iterator[KafkaCluster]:
    cluster = KafkaCluster()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def kafka_cluster(kafka_of_session: KafkaCluster) -> Iterator[KafkaCluster]:
    """A running mock cluster of Kafka."""
    kafka_of_session.heal()
    kafka_of_session.up()
    kafka_of_session.slow(0)
    yield kafka_of_session
    kafka_of_session.heal()
    kafka_of_session.up()
    kafka_of_session.slow(0)
