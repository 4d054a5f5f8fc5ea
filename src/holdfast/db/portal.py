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
        self._pid = -1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop()).result()

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            return self._loop

    @property
    def running(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
