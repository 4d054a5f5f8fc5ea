"""The loop of a consumer: fetch, store in one commit, acknowledge.

What is not acknowledged is delivered again, and finds its job. So after any error, the consumer is closed and opened
again, and nothing is ever rejected: brokers drop what was rejected too often.

While there is no database, nothing is fetched. The batch at hand is kept for a while, and stored as soon as possible.
After that, the consumer is closed, so that the broker can give its messages to another worker. It is opened again when
there is a database.

One worker at a time has a consumer: with two that fetch in turns, the order of messages would be lost. It is a row with
a lease. Others stand by, and take over when the lease has expired, or when the holder is marked as dead. What a holder
stores, it stores under the row's generation: if it stood still and was taken over, it stores nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from ..db.database import Database
from ..db.link import DEADLINE, Link, backoff
from ..errors import ConfigurationError, Contended, Unreachable
from ..model.occurrences import Occurrences
from ..probes import probe
from ..transports import Away
from ..transports.consuming import Consumer, Incoming
from .arrivals import Arrival, Message, Source, queue_of
from .storing import Held, TakenOver, store

log = logging.getLogger("holdfast.receiving")

T = TypeVar("T")

ANSWERS_WITHIN = 30.0
"""Seconds that a call of a consumer may take. A fetch waits about one second."""
CLOSES_WITHIN = 5.0
HOLDS = 30.0
"""Seconds for which a batch is kept while there is no database."""
LONGEST_WAIT = 5.0
"""Seconds between two tries to reach a broker."""
LEASE = 30.0
"""Seconds for which a worker has a consumer; renewed with every batch, and every third of it."""
STAND_BY = 1.0
"""Seconds between two tries to take a consumer that another worker has."""


class Consumed(msgspec.Struct, frozen=True):
    """A consumer, and the name of the source of its messages."""

    consumer: Consumer
    source: Source

    @property
    def queue(self) -> str:
        """Where its messages wait, unless their handlers say otherwise. Workers of this queue run it."""
        return queue_of(self.source.name)


class Consuming:
    """The consumers of one worker. Call `start`, then `drain`, then `stop`."""

    def __init__(
        self,
        database: Database,
        consumed: Sequence[Consumed],
        worker: str,
        occurrences: Occurrences,
        *,
        deadline: float = DEADLINE,
        lease: float = LEASE,
    ) -> None:
        self._draining = asyncio.Event()
        self._loops = [
            Loop(
                Link(database, f"receive {each.source.name}", deadline=deadline),
                each,
                worker,
                occurrences,
                lease,
                self._draining,
            )
            for each in consumed
        ]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def received(self) -> int:
        """How many messages were stored and acknowledged."""
        return sum(loop.received for loop in self._loops)

    def start(self, ended: Callable[[asyncio.Task[None]], object] = lambda task: None) -> None:
        """Begin to fetch. `ended` is called for a loop that ends; with an error, if its consumer cannot be used."""
        for loop in self._loops:
            task = asyncio.create_task(loop.run(), name=f"holdfast consumer {loop.shown}")
            task.add_done_callback(ended)
            self._tasks.append(task)

    def drain(self) -> None:
        """Stop fetching. What was fetched is stored and acknowledged."""
        self._draining.set()

    async def stop(self, within: float = 10.0) -> None:
        """Drain, wait for that, and close everything. What could not be acknowledged in time is delivered again."""
        self.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Loop:
    """One consumer."""

    def __init__(
        self,
        link: Link,
        consumed: Consumed,
        worker: str,
        occurrences: Occurrences,
        lease: float,
        draining: asyncio.Event,
    ) -> None:
        self._link = link
        self._worker = worker
        self._occurrences = occurrences
        self._lease = lease
        self._held: Held | None = None
        self._held_at = 0.0
        self._stands_by = False
        self._consumer = consumed.consumer
        self._source = consumed.source
        self._draining = draining
        self._failures = 0
        """In a row, of the broker."""
        self._away_since = 0.0
        self.received = 0

    @property
    def shown(self) -> str:
        return self._consumer.shown

    @property
    def _name(self) -> str:
        """In the table of consumers."""
        return f"{self._source.name}: {self.shown}"

    async def run(self) -> None:
        """Run until drained. Raises only if the consumer cannot be used at all: its library is missing, for example."""
        try:
            while not self._draining.is_set():
                if not await self._take():
                    await self._rest(STAND_BY)
                    continue
                try:
                    await self._within(ANSWERS_WITHIN, self._consumer.open())
                    await self._pump()
                except ConfigurationError:
                    raise
                except Exception as error:
                    self._note_away(error)
                finally:
                    await self._close()
                if self._failures:
                    await self._rest(_wait(self._failures))
        finally:
            await self._give_back()
            await self._link.close()

    async def _take(self) -> bool:
        """Take the consumer, or keep it. False: another worker has it, or there is no database."""
        try:
            rows = await self._link.run("receiving", "take", self._name, self._worker, self._lease)
        except (Unreachable, Contended) as error:
            log.debug("%s: %s", self.shown, error)
            return self._held is not None and time.monotonic() - self._held_at < self._lease
        self._held = Held(self._name, self._worker, rows[0][0], self._lease) if rows else None
        self._held_at = time.monotonic()
        if self._held is None and not self._stands_by:
            self._occurrences.consumer_stands_by(self.shown)
        self._stands_by = self._held is None
        return self._held is not None

    async def _give_back(self) -> None:
        if self._held is not None:
            with suppress(Exception):
                await self._link.run("receiving", "give_back", self._name, self._worker, deadline=2)

    async def _pump(self) -> None:
        """Move messages until drained, until there is no database, or until another worker has the consumer."""
        while not self._draining.is_set():
            if time.monotonic() - self._held_at > self._lease / 3 and not await self._take():
                return
            messages = await self._within(ANSWERS_WITHIN, self._consumer.fetch())
            if not messages:
                self._note_back()
                continue
            if not await self._store([self._source.read(_message(each)) for each in messages]):
                return
            probe("acknowledge.before")
            await self._within(ANSWERS_WITHIN, self._consumer.acknowledge(messages))
            probe("acknowledge.after")
            self._note_back()
            self.received += len(messages)

    async def _store(self, arrivals: Sequence[Arrival]) -> bool:
        """Store a batch. False: there was no database for too long, and the messages must be fetched again."""
        failures, since = 0, time.monotonic()
        while True:
            try:
                await store(self._link, self._source, arrivals, self._held)
                self._held_at = time.monotonic()
                if failures:
                    self._occurrences.messages_stored(self.shown, time.monotonic() - since)
                return True
            except TakenOver as error:
                self._occurrences.consumer_taken_over(self.shown, len(arrivals), error)
                self._held = None
                return False
            except (Unreachable, Contended) as error:
                failures += 1
                if failures == 1:
                    self._occurrences.messages_not_stored(self.shown, len(arrivals), error)
            if time.monotonic() - since > HOLDS:
                await self._close()
                await self._until_there_is_a_database(since)
                return False
            await asyncio.sleep(backoff(failures))

    async def _until_there_is_a_database(self, since: float) -> None:
        failures = 0
        while not self._draining.is_set():
            with suppress(Unreachable, Contended):
                await self._link.fetch("select 1")
                self._occurrences.messages_given_back(self.shown, time.monotonic() - since)
                return
            failures += 1
            await self._rest(backoff(failures))

    async def _close(self) -> None:
        """Close the consumer; what it says about that does not matter any more."""
        with suppress(Exception):
            await self._within(CLOSES_WITHIN, self._consumer.close())

    @staticmethod
    async def _within(seconds: float, work: Awaitable[T]) -> T:
        """A client whose connection is half open may never answer."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise Away(f"no answer within {seconds:g} s") from None

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    def _note_away(self, error: Exception) -> None:
        """Told once per outage."""
        self._failures += 1
        if self._failures == 1:
            self._away_since = time.monotonic()
            self._occurrences.consumer_away(self.shown, error)

    def _note_back(self) -> None:
        if self._failures:
            self._failures = 0
            self._occurrences.consumer_back(self.shown, time.monotonic() - self._away_since)


def _message(incoming: Incoming) -> Message:
    return Message(_known_by(incoming), incoming.body, incoming.content_type, incoming.attributes)


def _known_by(incoming: Incoming) -> str:
    """What the broker calls a message, and what it says: a stream that is made again counts from the start again."""
    said = hashlib.sha256(incoming.body)
    said.update(repr(sorted(incoming.attributes.items())).encode(errors="surrogatepass"))
    return f"{incoming.fallback_id}:{said.hexdigest()[:16]}"


def _wait(failures: int) -> float:
    return float(min(LONGEST_WAIT, 0.1 * 2 ** min(failures, 6))) * random.uniform(0.5, 1.0)
