"""Collect what instances ask for at the same time, and do it in one trip."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ...db.link import Link, backoff
from ...errors import Contended, LeaseLost, Unreachable
from ...model.availability import Availability
from ...model.job import Claim
from ...model.occurrences import Occurrences, Part
from ...workflow.recording import AGAIN, LONGEST, Locked
from ..attempts.permits import KEPT, Lender
from ..leases.ledger import Ledger, now

Q = TypeVar("Q")
A = TypeVar("A")
Answer = tuple[asyncio.Future[A], Lender]
"""To be given, and by whom."""


class Batches(Generic[Q, A]):
    """Many questions about claimed rows, in few trips. It retries through outages for as long as leases last.

    Each link makes one trip at a time. With two links, and no more than half of the rows in a trip, this process works
    on the one half while the server works on the other; with one trip for all, they would wait for each other.
    """

    def __init__(
        self, part: Part, occurrences: Occurrences, ledger: Ledger, lease: float, links: Sequence[Link], most: int
    ) -> None:
        """`most`: rows in one trip."""
        self._availability = Availability(part, occurrences)
        self._ledger = ledger
        self._lease = lease
        self._most = most
        self._free = list(links)
        self._waiting: list[tuple[Claim, Q]] = []
        self._answers: list[Answer[A]] = []
        """Of those that wait, in the same order."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._locked: dict[int, int] = {}
        """How often the row at this slot was found locked, in a row."""
        self._failing: set[Link] = set()
        """Links whose trip has failed and is tried again."""

    @property
    def unavailable(self) -> bool:
        """Did the last trip fail, and is it tried again? If none is, only the next question can tell."""
        return self._availability.failures > 0 and bool(self._failing)

    def ask(self, claim: Claim, question: Q, lender: Lender = KEPT) -> asyncio.Future[A]:
        """The answer. `LeaseLost` if the row is no longer ours. `lender`: to whom a permit was lent meanwhile."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._add((claim, question), (answer, lender))
        return answer

    def _add(self, one: tuple[Claim, Q], answer: Answer[A]) -> None:
        if self._free and len(self._waiting) % self._most == 0:  # the first of the next trip
            trip = self._answer_all(self._free.pop())
            task = asyncio.get_running_loop().create_task(trip, name="holdfast flows")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._waiting.append(one)
        self._answers.append(answer)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer_all(self, link: Link) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # others that are just finishing a step come along
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                answers, self._answers = self._answers[: self._most], self._answers[self._most :]
                await self._answer(link, batch, answers)
                self._failing.discard(link)
        finally:
            self._failing.discard(link)
            self._free.append(link)

    async def _answer(self, link: Link, batch: list[tuple[Claim, Q]], answers: list[Answer[A]]) -> None:
        while batch:
            try:
                found = await self._trip(link, batch)
            except (Unreachable, Contended) as error:
                self._failing.add(link)
                self._availability.failed(error, rows=len(batch))
                await asyncio.sleep(backoff(self._availability.failures))
                batch, answers = self._still_ours(batch, answers)
                continue
            except Exception as error:
                if len(batch) > 1:  # one bad row must not fail the others
                    for one, answer in zip(batch, answers, strict=True):
                        await self._answer(link, [one], [answer])
                    return
                _fail(answers[0], error)
                return
            self._availability.succeeded()
            for one, answer, value in zip(batch, answers, found, strict=True):
                if isinstance(value, Locked):
                    self._put_off(one, answer)
                    continue
                if self._locked:
                    self._locked.pop(one[0].slot, None)
                if value is None:
                    _lose(answer)
                else:
                    answer[1].resume(answer[0], value)
            return

    def _put_off(self, one: tuple[Claim, Q], answer: Answer[A]) -> None:
        """Ask again later. The others of the trip have their answers: they must not wait for somebody's transaction."""
        slot = one[0].slot
        tries = self._locked[slot] = self._locked.get(slot, -1) + 1
        pause = min(AGAIN * 2 ** min(tries, 10), LONGEST)
        asyncio.get_running_loop().call_later(pause, self._ask_again, one, answer)

    def _ask_again(self, one: tuple[Claim, Q], answer: Answer[A]) -> None:
        ours, answers = self._still_ours([one], [answer])
        if ours:
            self._add(ours[0], answers[0])
        else:
            self._locked.pop(one[0].slot, None)

    def _still_ours(
        self, batch: list[tuple[Claim, Q]], answers: list[Answer[A]]
    ) -> tuple[list[tuple[Claim, Q]], list[Answer[A]]]:
        """What is worth another try. The first try needs no look at the clock: it is written under the hold."""
        at = now()
        ours = []
        for one, answer in zip(batch, answers, strict=True):
            if self._ledger.expired(one[0].slot, self._lease, at) or answer[0].done():  # or its run was stopped
                _lose(answer)
            else:
                ours.append((one, answer))
        return [one for one, _ in ours], [answer for _, answer in ours]

    async def _trip(self, link: Link, batch: list[tuple[Claim, Q]]) -> list[A | Locked | None]:
        """The answers, in this order; None: the row is no longer ours."""
        raise NotImplementedError


def _fail(answered: Answer[Any], error: Exception) -> None:
    answer, lender = answered
    lender.take_back()
    if not answer.done():  # its run may have been stopped
        answer.set_exception(error)


def _lose(answer: Answer[Any]) -> None:
    _fail(answer, LeaseLost("another worker may own the instance"))
