"""The destination: events to topics with an idempotent producer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import ConfigurationError
from ...model.event import Delivered, Message, Refused, Verdict
from .. import Away, Settle, cloudevents
from ..naming import Template, library
from .link import PREFIX, SILENT, checked_config, checked_servers, made, reach

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka import Message as Record

LEAST_TIMEOUT = 2.0
POLL = 0.1
"""Seconds for which the thread of a producer waits for reports, and so at most until it notices that it is to end."""
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
        self._servers = checked_servers(servers)
        self._topic = Template(topic, "topic")
        self._config = checked_config(config, OURS)
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
        handle = _Handle(lambda failed: made(Producer, settings, failed))
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

        problem = reach(self.producer, timeout)
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
