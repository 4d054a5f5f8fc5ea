"""One run of the demo, from the start of the server to its end. It can be stopped at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .conductor import Conductor, Found
from .front import installed, interactive
from .scene import Dark, Scene, screen_for
from .stage import given, stage

STAYS = """\
The demo keeps running, with fewer orders: press the buttons and watch the recovery.
  {}
Ctrl-C ends it and removes everything."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Ctrl-C or another signal, `number`, stopped the demo."""

    def __init__(self, number: int) -> None:
        self.number = number


def play(seconds: float, as_json: bool, dashboard: bool, tell: Callable[[Found], None]) -> Found:
    """Run the demo; return what the recount found. Everything is removed before this returns or raises.

    `tell` gets it as soon as it is known. In front of somebody, the stage then stays open until a signal comes.
    """
    stop, scene = _Stop(), Scene(total=seconds)
    screen = screen_for(sys.stderr if as_json else sys.stdout, as_json)

    def verdict(found: Found) -> bool:
        screen.close()
        tell(found)
        stays = served and not as_json and installed() and interactive()
        if stays:
            print(f"\n{STAYS.format(scene.dashboard)}", flush=True)
        return stays

    served = dashboard and not isinstance(screen, Dark)
    try:
        with stop.listening():
            screen.announce(scene, "connecting to your server" if given() else "starting PostgreSQL")
            with stage() as place:
                return asyncio.run(_perform(Conductor(place, scene, screen), stop, served, verdict))
    finally:
        screen.close()


async def _perform(conductor: Conductor, stop: _Stop, served: bool, verdict: Callable[[Found], bool]) -> Found:
    known: list[Found] = []

    def heard(found: Found) -> bool:
        known.append(found)
        return verdict(found)

    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(stop.on_exception)
    stop.call = lambda: loop.call_soon_threadsafe(task.cancel)
    if stop.asked:
        raise Interrupted(stop.asked)
    try:
        return await conductor.run(served, heard)
    except asyncio.CancelledError:
        if known:  # it has told all that it had to tell
            return known[0]
        raise Interrupted(stop.asked) from None
    finally:
        stop.call = _nothing


class _Stop:
    """The first signal stops the demo, but never while it creates or removes what must not remain.

    A server that is starting is started completely first, which takes about a second.
    """

    def __init__(self) -> None:
        self.asked = 0
        """The first signal that arrived; 0 if none did."""
        self.call: Callable[[], object] = _nothing

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that nothing awaited, but not after a signal: a cancelled connect leaves one."""
        if not self.asked:
            loop.default_exception_handler(context)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:
            self.asked = number
            self.call()


def _nothing() -> None:
    """Do nothing: no task runs yet, or any more, and `asked` will be checked."""
