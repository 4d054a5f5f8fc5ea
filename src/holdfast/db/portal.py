"""An event loop in a separate thread, for synchronous code. Started on first use, and again after a fork or a stop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

import msgspec

from ..errors import Unreachable

T = TypeVar("T")

GRACE = 5.0
"""Seconds that running calls have to end when the portal is stopped."""


class _Place(msgspec.Struct, eq=False):
    """A loop, the thread that runs it, and its calls."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    pid: int
    calls: set[Future[Any]] = msgspec.field(default_factory=set)


class Portal:
    def __init__(self, name: str = "holdfast") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._place: _Place | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop and wait for its result."""
        with (
            self._lock
        ):  # so that `stop` sees this call, or this call a new loop: none is lost in a loop that has stopped
            place = self._here() or self._start()
            call = asyncio.run_coroutine_threadsafe(work, place.loop)
            place.calls.add(call)
        call.add_done_callback(place.calls.discard)
        try:
            return call.result()
        except KeyboardInterrupt:
            call.cancel()  # a wait for a result would poll on
            raise
        except CancelledError:
            raise Unreachable(
                "close() ended this call before the server answered; whether it took effect is unknown"
            ) from None

    def stop(self, last: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
        """Let running calls end, cancel those that do not end in time, run `last`, and end the loop and its thread.

        Calls that arrive in the meantime get a new loop.
        """
        with self._lock:
            place, self._place = self._here(), None
        if place is None:
            return
        for late in wait(set(place.calls), GRACE).not_done:
            late.cancel()
        asyncio.run_coroutine_threadsafe(last(place.loop), place.loop).result()
        place.loop.call_soon_threadsafe(place.loop.stop)
        place.thread.join()

    def _here(self) -> _Place | None:
        return self._place if self._place is not None and self._place.pid == os.getpid() else None

    def _start(self) -> _Place:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(loop,), name=self._name, daemon=True)
        thread.start()
        self._place = _Place(loop, thread, os.getpid())
        return self._place


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
