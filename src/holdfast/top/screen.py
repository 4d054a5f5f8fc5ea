"""The terminal: a screen of its own, keys without Enter, and everything as it was at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator

from .frame import COLOURS, PLAIN, SORTS, frame
from .looking import State

EVERY = 1.0
PATIENCE = 5.0
"""Seconds after which the server is said not to answer."""
OPEN = "\x1b[?1049h\x1b[?25l"
CLOSE = "\x1b[?25h\x1b[?1049l"


class Screen:
    """Shows one look after the other until q, Ctrl-C or SIGTERM."""

    def __init__(self, look: Callable[[], Awaitable[State]], where: str, sort: str = "d", every: float = EVERY) -> None:
        self._look = look
        self._where = where
        self._every = every
        self._sort = sort
        self._state: State | None = None
        self._problem: str | None = None
        self._ended = asyncio.Event()
        self._paint = PLAIN if os.environ.get("NO_COLOR") else COLOURS

    async def run(self) -> None:
        self._state = await self._look()  # what is wrong from the start is said without a screen
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        loop.add_reader(sys.stdin.fileno(), self._key)
        try:
            with _own_screen():
                await self._show()
        finally:
            loop.remove_reader(sys.stdin.fileno())

    async def _show(self) -> None:
        while not self._ended.is_set():
            self._draw()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._every)
                return
            looking = asyncio.ensure_future(self._look())
            ended = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({looking, ended}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            await self._learn(looking)

    async def _learn(self, looking: asyncio.Future[State]) -> None:
        if not looking.done():
            looking.cancel()
            self._problem = f"the server has not answered for {PATIENCE:.0f} s; these numbers are old"
        try:
            self._state = await looking
            self._problem = None
        except asyncio.CancelledError:
            pass
        except Exception as error:  # an outage must not end it: that is when people look
            self._problem = f"{type(error).__name__}: {error}; these numbers are old"

    def _key(self) -> None:
        for key in os.read(sys.stdin.fileno(), 64).decode(errors="ignore"):
            if key in ("q", "Q", "\x03"):
                self._ended.set()
            elif key in SORTS:
                self._sort = key
                self._draw()

    def _draw(self) -> None:
        if self._state is None:
            return
        width, height = os.get_terminal_size(sys.stdout.fileno())
        lines = frame(self._state, self._where, width, height, self._sort, self._paint, self._problem)
        text = "\r\n".join(f"{line}\x1b[K" for line in lines[:height])
        sys.stdout.write(f"\x1b[H{text}\x1b[J")
        sys.stdout.flush()


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    sys.stdout.write(OPEN)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        sys.stdout.write(CLOSE)
        sys.stdout.flush()
