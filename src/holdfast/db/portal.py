"""An event loop in a thread of its own, for synchronous code. Made on first use, anew after a fork."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    def __init__(self, name: str = "holdfast") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = -1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop()).result()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @property
    def running(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def stop(self) -> None:
        """End the loop and its thread; the next `run` makes new ones."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
            if loop is None or thread is None or self._pid != os.getpid():
                return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
