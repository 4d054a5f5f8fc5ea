"""Wait for jobs to end: one poller per event loop, and so one per process for all calls that do not await.

It asks which of the awaited jobs have left the inbox, with one statement for all of them, and reads the outcomes of
those from the archive. It asks at once, again after 10 ms, and doubles the interval up to 250 ms; a new wait starts it
over. It polls because that works through every pooler, needs no connection of its own, and costs a completion nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec

from .db.link import backoff
from .errors import Contended, JobFailed, NotFound, Unreachable

FIRST, LONGEST = 0.01, 0.25
"""Seconds between two polls."""
SHARE = 4
"""A poll is followed by a pause of this many times its duration, at least: many waits must not keep a server busy."""
TRIES = 8
"""How often in a row a poll may fail before those that wait get the error."""
LIVE = ("pending", "processing", "blocked")

Row = Mapping[str, Any]
Ask = Callable[[str, Sequence[UUID]], Awaitable[Sequence[Any]]]
"""Run a statement of the inbox with these ids."""


class Results:
    """The waits of one event loop."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waits: dict[UUID, set[asyncio.Future[Row]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._pause = FIRST
        self._failures = 0

    async def wait(self, id: UUID, timeout: float | None) -> Any:
        """The result of the job; raises `JobFailed`, `NotFound`, or TimeoutError."""
        arrival: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waits.setdefault(id, set()).add(arrival)
        self._arrived.set()
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll(), name="holdfast results")
        try:
            async with asyncio.timeout(timeout):
                return result_of(await arrival)
        except TimeoutError:
            raise TimeoutError(
                f"job {id} has not ended within {timeout:g} s. It is not affected: wait again, or look at its state"
            ) from None
        finally:
            self._leave(id, arrival)

    def close(self) -> None:
        """End the waits with an error."""
        self._fail(Unreachable("close() ended this wait; the job is not affected"))
        if self._polling is not None:
            self._polling.cancel()

    def _leave(self, id: UUID, arrival: asyncio.Future[Row]) -> None:
        waits = self._waits.get(id, set())
        waits.discard(arrival)
        if not waits:
            self._waits.pop(id, None)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waits:
                self._arrived.clear()
                began = loop.time()
                await self._look()
                if not self._waits:
                    return
                await asyncio.sleep(max(FIRST, SHARE * (loop.time() - began)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(backoff(self._failures) if self._failures else self._pause - FIRST):
                        await self._arrived.wait()
                self._pause = FIRST if self._arrived.is_set() else min(2 * self._pause, LONGEST)
        finally:
            self._polling = None

    async def _look(self) -> None:
        try:
            left = [row["id"] for row in await self._ask("left", list(self._waits))]
            rows = {row["id"]: row for row in await self._ask("outcomes", left)} if left else {}
        except (Unreachable, Contended) as error:
            self._failures += 1
            if self._failures >= TRIES:
                self._fail(error)
        except Exception as error:
            self._fail(error)
        else:
            self._failures = 0
            self._settle(left, rows)

    def _settle(self, left: Sequence[UUID], rows: Mapping[UUID, Row]) -> None:
        for id in left:
            row = rows.get(id)
            if row is not None and row["status"] in LIVE:
                continue  # it is back: revived, or committed between the two statements
            for arrival in self._waits.pop(id, ()):
                if arrival.done():
                    continue
                if row is not None:
                    arrival.set_result(row)
                else:
                    arrival.set_exception(_unknown(id))

    def _fail(self, error: Exception) -> None:
        self._failures = 0
        waits, self._waits = self._waits, {}
        for arrival in (arrival for arrivals in waits.values() for arrival in arrivals):
            if not arrival.done():
                arrival.set_exception(error)


def _unknown(id: UUID) -> NotFound:
    return NotFound(
        f"There is no job {id}. Its enqueue has not committed, or it ended so long ago that its row is gone, or its "
        "row was not kept"
    )


def result_of(row: Row) -> Any:
    """Return the result of an ended job, decoded from JSON; raise `JobFailed` if it did not complete."""
    if row["status"] == "completed":
        return msgspec.json.decode(row["result"]) if row["result"] is not None else None
    failure = msgspec.json.decode(row["failure"]) if row["failure"] is not None else None
    error, message = None, row["last_error"] or ""
    if row["status"] in ("dead_letter", "discarded") and isinstance(failure, dict):
        error, message = failure.get("error"), failure.get("message") or ""
    raise JobFailed(row["id"], row["status"], error, message, row["attempts"])
