"""One performance, from the server's start to its end, that can be stopped at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from .conductor import Conductor
from .scene import Scene, Screen, screen_for
from .stage import Stage, stage

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Somebody pressed Ctrl-C, or asked by a signal."""


def play(seconds: float, as_json: bool) -> dict[str, dict[str, float]]:
    """Run the demo; what the recount found. Everything is cleared away before this returns or raises."""
    stop, scene = _Stop(), Scene(total=seconds)
    screen = screen_for(sys.stderr if as_json else sys.stdout, as_json)
    try:
        with stop.listening():
            screen.announce(scene, "starting PostgreSQL")
            with stage() as place, stop.holding():
                return asyncio.run(_perform(place, scene, screen, stop))
    finally:
        screen.close()


async def _perform(place: Stage, scene: Scene, screen: Screen, stop: _Stop) -> dict[str, dict[str, float]]:
    conductor = Conductor(place, scene, screen)
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    stop.call = lambda: loop.call_soon_threadsafe(task.cancel)
    if stop.asked:
        raise Interrupted
    try:
        return await conductor.run()
    except asyncio.CancelledError:
        raise Interrupted from None


class _Stop:
    """The first signal stops the demo; those that follow find it busy with clearing away."""

    def __init__(self) -> None:
        self.asked = False
        self._held = False
        self.call: Callable[[], object] = _nothing

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """While the conductor plays, a signal cancels its task; before that it interrupts at once."""
        self._held = True
        try:
            yield
        finally:
            self.call = _nothing

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            return
        self.asked = True
        if self._held:
            self.call()
        else:
            raise Interrupted


def _nothing() -> None:
    """It is over already."""
