"""The conductor: starts everything, kills workers, shows what happens, and runs the recount."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from holdfast.db.database import Connection

from . import children
from .buttons import Buttons
from .front import MISSING, front, installed, interactive, show
from .journal import Tail
from .scene import Scene, Screen
from .stage import Stage
from .troupe import DemoError, Troupe

FIRST_KILL = 1.0
KILL_EVERY = 4.0
"""Seconds between kills; less when the demo is short."""
READY = 60.0
"""Seconds for the workers to appear."""
PATIENCE = 30.0
"""Seconds to wait for the first kill after `--seconds` have passed."""
DRAIN = 60.0
"""Seconds for everything to end after the last order."""
GENTLE = 25
"""Orders per second, on the open stage."""
RECOUNT = Path(__file__).with_name("recount.py")

Found = dict[str, dict[str, float]]
"""What the recount found."""


class Conductor:
    def __init__(self, stage: Stage, scene: Scene, screen: Screen) -> None:
        self._stage = stage
        self._seconds = scene.total
        self._screen = screen
        self.scene = scene
        self.troupe = Troupe(stage.schema, stage.environment, stage.folder, scene)
        self.buttons = Buttons(stage, scene, self.troupe)
        self._producer = children.producer(stage.environment, stage.folder)
        self._orders_log = Tail(stage.folder / "producer.log")
        self._began = 0.0
        self._last = (0.0, 0)

    async def run(self, dashboard: bool, verdict: Callable[[Found], bool]) -> Found:
        """Run the whole demo; return what the recount found.

        `verdict` gets it, too, as soon as it is known, and says whether the stage is to stay open after that. It then
        does until this is cancelled.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._clear)
            self.scene.server = await self._stage.prepare()
            if dashboard:
                await self._open_front(stack)
            self._screen.announce(self.scene, "starting three workers")
            connection = await self._stage.connect()
            try:
                await self._play(connection)
            finally:
                await connection.close()
            found = await self._recount()
            if verdict(found):
                await self._stay()
            return found

    async def _open_front(self, stack: AsyncExitStack) -> None:
        if installed():
            self.scene.dashboard = await stack.enter_async_context(front(self.buttons))
            self.troupe.tolerant = True
            if self._screen.live and interactive():
                show(self.scene.dashboard)
        else:
            self.scene.dashboard = MISSING
        self._screen.announce(self.scene, f"dashboard {self.scene.dashboard}")

    async def _play(self, connection: Connection) -> None:
        self.troupe.start()
        await self._all_ready(connection)
        await self._open("orders come in")
        self._began = time.monotonic()
        self.scene.tell("orders come in; every few seconds, a worker is killed (SIGKILL)")
        watching = asyncio.create_task(self._watch())
        try:
            await self._kill_workers(connection, watching)
            self.scene.act = "draining"
            self._producer.ask_to_end()
            await self._producer.wait(20)
            await connection.execute(f"update {self._stage.schema}.schedules set paused_at = clock_timestamp()")
            await self._drained(connection, watching)
            self.scene.act = "drained"
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._look(connection)
        await self.troupe.end()
        self.scene.act = "counting"
        self._screen.show(self.scene)

    async def _open(self, act: str) -> None:
        """Let orders come in, and people press buttons."""
        self._producer.start()
        while not self._orders_log.read():
            self._check_producer()
            await asyncio.sleep(0.02)
        self.scene.act = act
        self.buttons.open = True

    async def _kill_workers(self, connection: Connection, watching: asyncio.Task[None]) -> None:
        """Kill one worker after the other, each in the middle of a job, until the orders stop."""
        every = min(KILL_EVERY, max(self._seconds / 4, 1.5))
        target, next_at = 0, min(FIRST_KILL, self._seconds / 4)
        # On a busy machine, the first kill may be late. Without one, there would be nothing to show.
        while self._elapsed < self._seconds + (0 if self.scene.kills else PATIENCE):
            await asyncio.sleep(0.02)
            if watching.done():
                watching.result()
            self._check_producer()
            if self._elapsed >= self._seconds and self.buttons.open:
                await self.buttons.close(connection)  # what people pressed must not keep the demo from its end
                await self.buttons.undo(connection)
            if self._elapsed >= next_at and await self._strike(connection, target):
                target += 1
                next_at = self._elapsed + every
        await self.buttons.close(connection)

    async def _strike(self, connection: Connection, target: int) -> bool:
        wanted = self.troupe.wanted
        if len(wanted) < 2 or not self.troupe.all_run:
            return False  # somebody must be left to take over
        return await self.troupe.strike(connection, wanted[target % len(wanted)])

    # The open stage

    async def _stay(self) -> None:
        """Start all again, at a gentle pace, for those who want to press the buttons. Until cancelled."""
        connection = await self._stage.connect()
        try:
            self.troupe.start()
            await connection.execute(f"update {self._stage.schema}.schedules set paused_at = null")
            gentle = {**self._stage.environment, "HOLDFAST_DEMO_PACE": str(GENTLE)}
            self._producer = children.producer(gentle, self._stage.folder)
            await self._open("the stage is yours")
            while True:
                await self._look(connection)
                self._check_producer()
                await asyncio.sleep(0.25)
        finally:
            await connection.close()

    # Watching

    async def _watch(self) -> None:
        """Show the state, on a separate connection, so that it does not delay the kills."""
        connection = await self._stage.connect()
        next_at = time.monotonic()
        try:
            while True:
                await self._look(connection)
                self._screen.show(self.scene)
                next_at = max(next_at + (0.25 if self._screen.live else 1.0), time.monotonic())
                await asyncio.sleep(next_at - time.monotonic())
        finally:
            await connection.close()

    async def _look(self, connection: Connection) -> None:
        scene = self.scene
        scene.seconds = self._elapsed
        row = await connection.fetchrow(f"""
            select count(*) filter (where status = 'pending' and available_at <= now()),
                   count(*) filter (where status = 'pending' and available_at > now()),
                   count(*) filter (where status = 'processing'),
                   count(*) filter (where status = 'dead_letter'),
                   coalesce(extract(epoch from clock_timestamp() - min(available_at) filter (
                       where status = 'pending' and available_at <= now())), 0)::float8,
                   (select count(*) from {self._stage.schema}.archive),
                   (select count(*) from {self._stage.schema}.effects where kind = 'count_stock')
            from {self._stage.schema}.inbox
        """)
        assert row is not None
        scene.due, scene.later, scene.processing, scene.dead, scene.claim_age, scene.completed, scene.slots = row
        self._note_rate()
        for line in self._orders_log.read():
            scene.orders += line["what"] == "committed"
            scene.rolled_back += line["what"] == "rolled back"
            scene.repeated += line["what"] == "repeated"
        await self.troupe.look(connection)
        await self.buttons.look(connection)

    def _note_rate(self) -> None:
        at, completed = self._last
        if self.scene.seconds - at >= 0.9:
            self.scene.rates.append((self.scene.completed - completed) / (self.scene.seconds - at))
            self._last = (self.scene.seconds, self.scene.completed)

    # Beginning and end

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began if self._began else 0.0

    async def _all_ready(self, connection: Connection) -> None:
        deadline = time.monotonic() + READY
        while not self.troupe.all_run:
            await self.troupe.learn_names(connection)
            for member in self.troupe.members:
                if not member.child.running or time.monotonic() > deadline:
                    raise DemoError(f"{member.child.name} did not start. Its log ends with:\n{member.child.log_tail()}")
            await asyncio.sleep(0.05)

    def _check_producer(self) -> None:
        if not self._producer.running:
            raise DemoError(f"The producer ended unexpectedly. Its log ends with:\n{self._producer.log_tail()}")

    async def _drained(self, connection: Connection, watching: asyncio.Task[None]) -> None:
        """Wait until no job is pending or processing. If that takes too long, the recount reports it."""
        deadline = time.monotonic() + DRAIN
        live = f"select count(*) from {self._stage.schema}.inbox where status::text <> 'dead_letter'"
        while await connection.fetchval(live) and time.monotonic() < deadline:
            if watching.done():
                watching.result()
            await self.buttons.undo(connection)  # the dashboard's other pages have buttons, too
            await asyncio.sleep(0.05)

    async def _recount(self) -> Found:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-P", str(RECOUNT), str(self._stage.folder), self._stage.schema],
            env={**os.environ, "HOLDFAST_DATABASE_URL": self._stage.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DemoError(f"The recount failed:\n{done.stderr[-2000:]}")
        found: Found = json.loads(done.stdout)
        return found

    async def _clear(self) -> None:
        """End all processes and remove the schema, however the demo ended."""
        self._producer.signal_all(signal.SIGKILL)
        await self.troupe.clear()
        await self._producer.wait(10)
        await self.buttons.end()
        await self._stage.remove()
