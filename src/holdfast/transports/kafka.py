"""Kafka: events to topics with an idempotent producer, and messages from topics as a member of a group."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..errors import ConfigurationError
from ..model.event import Delivered, Message, Refused, Verdict
from . import Away, Settle, cloudevents
from .consuming import FETCHED, FIRST, LINGER, Incoming
from .naming import Template, library

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka import Message as Record

T = TypeVar("T")

PREFIX = "ce_"
LEAST_TIMEOUT = 2.0
POLL = 0.1
"""Seconds for which the thread of a producer waits for reports, and so at most until it notices that it is to end."""
SILENT = {"log_level": 2}
"""librdkafka writes a line to standard error for each attempt to connect, twenty a second. Its errors reach us, too."""
# If a broker refuses the first request of a producer and accepts the second, it takes the retry of the first for a
# duplicate, and librdkafka reports success for messages that are stored nowhere. They have no offset. Nor has a message
# whose first answer was lost, and which is stored: that one is sent twice.
NO_OFFSET = "reported as a duplicate, without an offset: it may not be stored"
OURS = {
    "bootstrap.servers",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "error_cb",
    "on_delivery",
}
OURS_OF_CONSUMER = {
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "error_cb",
}


class Kafka:
    """Sends events to topics.

    An event is delivered when all replicas that are in sync have it (`acks=all`). Its key is the record's key, so
    events of a key are in one partition, in their order. The record's time is the time of sending: with that of the
    event, which is in `ce_time`, a topic could drop a late backlog as older than its retention.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str = "{type}",
        *,
        config: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
        batch: int = 500,
        parallel: int = 2,
    ) -> None:
        """`config`: settings of librdkafka, such as `security.protocol` and `sasl.password`.

        `timeout`: seconds until a message that was not confirmed counts as unknown.
        """
        if timeout < LEAST_TIMEOUT:
            raise ConfigurationError(f"timeout: expected at least {LEAST_TIMEOUT:g} seconds, got {timeout:g}")
        self.batch = batch
        self.parallel = parallel
        self.timeout = timeout
        self._servers = _servers(servers)
        self._topic = Template(topic, "topic")
        self._config = _checked(config, OURS)
        self._handle: _Handle | None = None

    @property
    def shown(self) -> str:
        return f"kafka://{self._servers} topic {self._topic.text}"

    async def open(self) -> None:
        library("confluent_kafka", "kafka")
        from confluent_kafka import Producer

        milliseconds = int(self.timeout * 1000)
        settings = {
            **SILENT,
            "linger.ms": 1,  # a batch is handed over at once, so there is little to wait for
            "partitioner": "murmur2_random",  # that of Kafka's own clients: the same key, the same partition
            # An unknown topic must be reported as such before its messages time out; 30 s by default.
            "topic.metadata.propagation.max.ms": milliseconds // 2,
            **self._config,
            "bootstrap.servers": self._servers,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": milliseconds,
        }
        handle = _Handle(lambda failed: _made(Producer, settings, failed))
        try:
            problem = await handle.start(self.timeout)
        except BaseException:
            handle.end()
            raise
        if problem is not None:
            handle.end()
            raise Away(f"{self.shown}: {handle.why or problem}")
        self._handle = handle

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        handle = self._handle
        if handle is None or handle.fatal:
            raise Away(f"{self.shown}: {handle.why if handle else 'not connected'}")
        sending = _Sending(settle, alone=len(batch) == 1)
        handle.active.add(sending)
        deadline = asyncio.get_running_loop().time() + self.timeout
        try:
            async with asyncio.timeout_at(deadline):
                for message in batch:
                    while not sending.over and not self._produce(handle, message, sending):
                        await asyncio.sleep(0.01)  # librdkafka's buffer is full: reports make room
                await sending.wait()
        except TimeoutError:
            why = f"{sending.pending} messages not confirmed within {self.timeout:g} s"
            raise Away(f"{self.shown}: did not answer: {why}{_because(handle)}") from None
        finally:
            sending.over = True
            handle.active.discard(sending)
        if sending.lost is not None:
            raise Away(f"{self.shown}: {sending.lost}{_because(handle)}")

    async def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.end()

    def _produce(self, handle: _Handle, message: Message, sending: _Sending) -> bool:
        """Hand a message to librdkafka; False: its buffer is full."""
        from confluent_kafka import KafkaException

        headers: list[tuple[str, str | bytes | None]] = [
            (PREFIX + name, value.encode()) for name, value in cloudevents.attributes(message).items()
        ]
        headers.append(("content-type", cloudevents.JSON.encode()))
        try:
            handle.producer.produce(
                self._topic.of(message),
                message.data,
                None if message.key is None else message.key.encode(),
                headers=headers,
                on_delivery=lambda error, record: handle.report(sending, message, error, record),
            )
        except BufferError:
            return False
        except ValueError as error:
            sending.settle(message, Refused(reason=str(error), final=True))
        except KafkaException as error:
            verdict = _refusal(error.args[0], message, alone=True)  # of this message: nothing was sent
            if verdict is None:
                raise Away(f"{self.shown}: {error.args[0].str()}") from error
            sending.settle(message, verdict)
        else:
            sending.pending += 1
        return True


class _Sending:
    """One call of `send`; used by the event loop only."""

    def __init__(self, settle: Settle, *, alone: bool) -> None:
        self.settle = settle
        self.alone = alone
        self.pending = 0
        self.lost: str | None = None
        self.over = False
        """Nobody wants to know any more."""
        self._settled = asyncio.Event()

    async def wait(self) -> None:
        while self.pending:
            self._settled.clear()
            await self._settled.wait()

    def give_up(self) -> None:
        """Leave the rest unsettled."""
        self.lost = self.lost or "closed"
        self.over, self.pending = True, 0
        self._settled.set()

    def report(self, message: Message, error: KafkaError | None, reference: str | None) -> None:
        if self.over:
            return
        self.pending -= 1
        verdict: Verdict | None = None
        if error is not None:
            verdict = _refusal(error, message, alone=self.alone)
        elif reference is not None:
            verdict = Delivered(reference=reference)
        if verdict is None:
            self.lost = self.lost or (error.str() if error else NO_OFFSET)
        else:
            self.settle(message, verdict)
        if not self.pending:
            self._settled.set()


_Report: TypeAlias = "tuple[_Sending, Message, KafkaError | None, str | None]"


class _Handle:
    """A producer and the thread that takes its reports. A producer with a fatal error is of no use any more."""

    def __init__(self, make: Callable[[Callable[[KafkaError], None]], Any]) -> None:
        self.why: str | None = None
        """The last error of its connections."""
        self.fatal = False
        self.active: set[_Sending] = set()
        self._loop = asyncio.get_running_loop()
        self._reports: list[_Report] = []
        self._ending = False
        self.producer: Producer = make(self._failed)

    async def start(self, timeout: float) -> str | None:
        """Return None as soon as the cluster answers; otherwise, why not."""
        answer: asyncio.Future[str | None] = self._loop.create_future()
        threading.Thread(target=self._run, args=(answer, timeout), name="holdfast-kafka", daemon=True).start()
        return await answer

    def report(self, sending: _Sending, message: Message, error: KafkaError | None, record: Record) -> None:
        """Called by librdkafka, in our thread."""
        offset = record.offset()
        reference = None if offset is None else f"{record.topic()}:{record.partition()}:{offset}"
        self._reports.append((sending, message, error, reference))

    def end(self) -> None:
        """Drop what was not sent. The thread ends soon."""
        self._ending = True
        for sending in self.active:
            sending.give_up()

    def _run(self, answer: asyncio.Future[str | None], timeout: float) -> None:
        from confluent_kafka import KafkaException

        problem = _problem(self.producer, timeout)
        self._call(lambda: None if answer.done() else answer.set_result(problem))
        while not self._ending:
            try:
                self.producer.poll(POLL)
            except KafkaException as error:  # a fatal one is raised as well as reported
                self._failed(error.args[0])
            if self._reports:
                reports, self._reports = self._reports, []
                self._call(lambda reports=reports: self._pass_on(reports))  # type: ignore[misc]
        self.producer.purge()
        self.producer.close()

    def _call(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the event loop is closed
            self._ending = True

    def _pass_on(self, reports: Sequence[_Report]) -> None:
        for sending, message, error, reference in reports:
            if error is not None and error.fatal():
                self._failed(error)
            sending.report(message, error, reference)

    def _failed(self, error: KafkaError) -> None:
        self.why = error.str()
        self.fatal = self.fatal or error.fatal()


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
        self._servers = _servers(servers)
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._config = _checked(config, OURS_OF_CONSUMER)
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
            self._consumer = consumer = _made(Consumer, settings, self._failed)
            problem = await self._in_thread(lambda: _problem(consumer, self.timeout))
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


def _made(kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any], failed: Callable[[KafkaError], None]) -> Any:
    from confluent_kafka import KafkaException

    try:
        return kind({**settings, "error_cb": failed})
    except KafkaException as error:  # before any connection: a setting is wrong
        raise ConfigurationError(f"config: {error.args[0].str()}") from None


def _problem(client: Producer | Consumer, timeout: float) -> str | None:
    """Return None as soon as the cluster answers: librdkafka connects only when it must. Otherwise, return why not."""
    from confluent_kafka import KafkaException

    try:
        client.list_topics(timeout=timeout)
    except KafkaException as error:
        client.poll(0)  # calls error_cb, which knows more
        return str(error.args[0].str())
    return None


def _refusal(error: KafkaError, message: Message, *, alone: bool) -> Refused | None:
    """What the cluster said about this message; None: it said nothing, and the fate of the message is unknown."""
    code = error.code()
    if code in (error.MSG_SIZE_TOO_LARGE, error.RECORD_LIST_TOO_LARGE, error.INVALID_MSG_SIZE):
        # A broker measures the request. If there were others in it, perhaps only all of them together are too large.
        advice = "" if alone else "; perhaps batch.size is above the topic's max.message.bytes"
        return Refused(reason=f"{error.str()}: {len(message.data)} bytes{advice}", final=alone)
    if code in (error._UNKNOWN_TOPIC, error.UNKNOWN_TOPIC_OR_PART, error._UNKNOWN_PARTITION):
        return Refused(reason=f"{error.str()}: there is no such topic; create it first")
    refusals = (error.TOPIC_EXCEPTION, error.TOPIC_AUTHORIZATION_FAILED, error.INVALID_MSG, error.INVALID_RECORD)
    if code in (*refusals, error.POLICY_VIOLATION, error.INVALID_TIMESTAMP):
        return Refused(reason=error.str())
    return None


def _because(handle: _Handle) -> str:
    return f" ({handle.why})" if handle.why else ""


def _servers(servers: str | Sequence[str]) -> str:
    text = servers if isinstance(servers, str) else ",".join(servers)
    if not text or "@" in text or "/" in text:
        raise ConfigurationError("servers: expected host:port, got something else; a password belongs into config")
    return text


def _checked(config: Mapping[str, Any] | None, ours: set[str]) -> dict[str, Any]:
    given = dict(config or {})
    if taken := sorted(ours & given.keys()):
        raise ConfigurationError(f"config: {', '.join(taken)}: set by Holdfast; leave it out")
    return given


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
