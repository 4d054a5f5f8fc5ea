"""How many attempts may run at the same time. One that only waits for the database lends its permit to another.

A workflow instance that waits until its steps are durable runs nothing. If it kept its permit, a worker with twenty of
them would wait for the disk with all twenty, and write twenty rows per commit. So it lends it: others begin meanwhile,
and many more share a commit. When its answer is there, it goes on as soon as a permit is free, before anything new.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

A = TypeVar("A")


class Lender(Protocol):
    """What somebody needs who has lent a permit. Each permit that was lent is taken back once, by either."""

    def resume(self, answer: asyncio.Future[A], value: A) -> None:
        """Give the answer when there is a permit to go on with."""

    def take_back(self) -> None:
        """Take it back now: it goes on to end."""


class Permits:
    def __init__(self, number: int) -> None:
        self.free = number
        """How many more may begin. Negative for a moment, after `take_back`."""
        self.lent = 0
        self.returning: deque[tuple[asyncio.Future[Any], Any]] = deque()
        """Those that have their answer and wait for a permit, with it."""
        self.on_lent: Callable[[], object] = lambda: None
        """Called when a permit is free because it was lent; set by the hands."""

    def give(self) -> None:
        """An attempt has ended, or waits. The hands do this themselves, once for each job."""
        self.free += 1
        if self.returning:
            self.pass_on()

    def lend(self) -> None:
        self.lent += 1
        self.give()
        if self.free > 0:
            self.on_lent()

    def resume(self, answer: asyncio.Future[A], value: A) -> None:
        self.returning.append((answer, value))
        if self.free > 0:
            self.pass_on()

    def take_back(self) -> None:
        self.lent -= 1
        self.free -= 1

    def pass_on(self) -> None:
        """Let those go on that wait for a permit, as far as there are any."""
        while self.free > 0 and self.returning:
            answer, value = self.returning.popleft()
            self.take_back()
            if not answer.done():  # otherwise its attempt was stopped, and has given what it had lent
                answer.set_result(value)


class Kept:
    """In place of a permit that is not lent, because something else of its instance runs."""

    def resume(self, answer: asyncio.Future[A], value: A) -> None:
        if not answer.done():
            answer.set_result(value)

    def take_back(self) -> None: ...


KEPT = Kept()
