"""The source: messages from topics as a member of a group."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from .. import Away
from ..consuming import FETCHED, FIRST, LINGER, Incoming
from ..naming import library
from .link import PREFIX, SILENT, checked_config, checked_servers, made, reach

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from confluent_kafka import Message as Record

T = TypeVar("T")

OURS = {
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "error_cb",
}


class KafkaConsumer:
    """Messages from topics. Each is read by one member of the group; offsets are committed after what they cover."""

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str],
        group: str,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """`topics`: names, or patterns that begin with `^`. A new group reads from the start of its topics.

        `config`: settings of librdkafka, such as `security.protocol` and `sasl.password`.
        """
        self.timeout = timeout
        self.group = group
        self._servers = checked_servers(servers)
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._config = checked_config(config, OURS)
        self._consumer: Consumer | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._ready: list[Incoming] = []
        """Read, and not returned yet: if a fetch is cancelled, the next one returns them."""
        self._lost: str | None = None

    @property
    def shown(self) -> str:
        return f"kafka://{self._servers} topics {', '.join(self._topics)} group {self.group}"

    async def open(self) -> None:
        library("confluent_kafka", "kafka")
        from confluent_kafka import Consumer

        settings = {
            **SILENT,
            "auto.offset.reset": "earliest",
            **self._config,
            "bootstrap.servers": self._servers,
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        self._lost = None
        self._partitions = {}
        self._ready = []
        # librdkafka's calls wait, so they are made in a thread: in one, because a consumer is used by one at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-kafka")
        try:
            self._consumer = consumer = made(Consumer, settings, self._failed)
            problem = await self._in_thread(lambda: reach(consumer, self.timeout))
            if problem is not None:
                raise Away(f"{self.shown}: {problem}")
            consumer.subscribe(self._topics, on_revoke=self._revoked, on_lost=self._revoked)
        except BaseException:
            await self.close()
            raise

    async def fetch(self) -> Sequence[Incoming]:
        await self._in_thread(self._fetch)
        found, self._ready = self._ready[:FETCHED], self._ready[FETCHED:]
        return found

    async def acknowledge(self, messages: Sequence[Incoming]) -> None:
        await self._in_thread(lambda: self._commit(messages))

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if consumer is not None:
            leaving = asyncio.get_running_loop().run_in_executor(thread, consumer.close)
            await asyncio.wait([leaving], timeout=self.timeout)
        thread.shutdown(wait=False)

    async def _in_thread(self, what: Callable[[], T]) -> T:
        if self._thread is None or self._lost is not None:
            raise Away(f"{self.shown}: {self._lost or 'not connected'}")
        from confluent_kafka import KafkaException

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except KafkaException as error:
            raise Away(f"{self.shown}: {error.args[0].str()}") from error

    def _fetch(self) -> None:
        """In the thread."""
        consumer = self._consumer
        if consumer is None or self._ready:
            return
        first = consumer.poll(FIRST)
        records = [] if first is None else [first, *consumer.consume(FETCHED - 1, LINGER)]
        self._ready = [self._incoming(record) for record in records if record.error() is None]
        for record in records:
            if (error := record.error()) is not None:
                raise Away(f"{self.shown}: {error.str()}")

    def _incoming(self, record: Record) -> Incoming:
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None and partition is not None and offset is not None
        reading = self._partitions.setdefault((topic, partition), _Partition())
        reading.out.append(offset)
        given: Any = record.headers() or ()
        headers = {name: _text(value) for name, value in given}
        value: Any = record.value()
        return Incoming(
            attributes={name[len(PREFIX) :]: text for name, text in headers.items() if name.startswith(PREFIX)},
            body=value or b"",
            content_type=next((text for name, text in headers.items() if name.lower() == "content-type"), None),
            handle=(topic, partition, offset, reading),
            fallback_id=f"{topic}:{partition}:{offset}",
        )

    def _commit(self, messages: Sequence[Incoming]) -> None:
        """In the thread."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        for message in messages:
            _, _, offset, reading = message.handle
            reading.stored.add(offset)
        # What was read of a partition that was taken from us is not here any more: it is read again.
        commits = [
            TopicPartition(topic, partition, upto)
            for (topic, partition), reading in self._partitions.items()
            if (upto := reading.advance()) is not None
        ]
        if self._consumer is None or not commits:
            return
        try:
            committed = self._consumer.commit(offsets=commits, asynchronous=False)
        except KafkaException as error:
            # The group has given the partitions to others: they read again what was not committed.
            moved = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)
            if error.args[0].code() in moved:
                return
            raise
        for commit in committed:
            if commit.error is not None:
                raise Away(f"{self.shown}: {commit.error.str()}")

    def _revoked(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._partitions.pop((partition.topic, partition.partition), None)

    def _failed(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == error._ALL_BROKERS_DOWN:
            self._lost = error.str()


class _Partition:
    """What was read of a partition and is not committed."""

    def __init__(self) -> None:
        self.out: deque[int] = deque()
        self.stored: set[int] = set()

    def advance(self) -> int | None:
        """Return the offset to commit: what comes after all that is stored without a gap."""
        upto = None
        while self.out and self.out[0] in self.stored:
            upto = self.out.popleft() + 1
            self.stored.discard(upto - 1)
        return upto


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
