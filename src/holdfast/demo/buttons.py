"""What the buttons of the dashboard's page do: only to the demo's own processes and its own database."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast
from holdfast.db.acting import actor
from holdfast.db.database import Connection
from holdfast.errors import HoldfastError, NotFound

from .pin import Pin
from .scene import Scene
from .stage import Stage
from .troupe import MOST, Member, Troupe

PATIENCE = 2.0
"""Seconds in which a worker that is to be killed may come to a job."""
QUEUE = "default"
"""The shop's only queue."""
CLOSED = "The demo starts, or counts what happened. Press it while orders come in."


class Buttons:
    """A `dashboard.controls.Controls`."""

    def __init__(self, stage: Stage, scene: Scene, troupe: Troupe) -> None:
        self._stage = stage
        self._scene = scene
        self._troupe = troupe
        self._pin = Pin(stage)
        self._turn = asyncio.Lock()
        self.app = Holdfast(stage.url, schema=stage.schema)
        self.open = False
        """May they be pressed? Not while the demo starts, drains and counts: nothing may keep it from its end."""

    def shown(self) -> dict[str, Any]:
        scene = self._scene
        return {
            "open": self.open,
            "act": scene.act,
            "seconds": scene.seconds,
            "total": scene.total,
            "workers": [dataclasses.asdict(each) for each in scene.workers],
            "more": len(self._troupe.wanted) < MOST,
            "queues": [QUEUE],
            "jobs": {
                "due": scene.due, "later": scene.later, "running": scene.processing, "completed": scene.completed,
                "dead letters": scene.dead,
            },
            "kills": scene.kills,
            "recovered": scene.recovered,
            "rate": scene.rate,
            "claim_age": scene.claim_age,
            "pin": dataclasses.asdict(scene.pin) if scene.pin is not None else None,
            "events": list(scene.events),
        }  # fmt: skip

    async def kill(self, worker: str | None) -> str:
        async with self._pressed() as connection:
            member = self._chosen(worker)
            if not await self._troupe.kill(connection, member, PATIENCE):
                raise HoldfastError(f"{member.child.name} has ended meanwhile")
            await self._note(connection, "demo.killed", member.child.name)
        return f"{member.child.name} was killed (SIGKILL), and is started again. Others take over its jobs."

    async def add(self) -> str:
        async with self._pressed() as connection:
            member = self._troupe.add()
            if member is None:
                raise HoldfastError(f"There are {MOST} workers, which is enough for a demo. Drain one first")
            await self._note(connection, "demo.added", member.child.name)
        return f"{member.child.name} starts."

    async def drain(self, worker: str | None) -> str:
        async with self._pressed() as connection:
            member = self._chosen(worker)
            self._troupe.drain(member)
            await self._note(connection, "demo.drained", member.child.name)
        return f"{member.child.name} drains (SIGTERM): it finishes what it runs, and hands back the rest."

    async def pin(self) -> str:
        async with self._pressed() as connection:
            if not self._pin.held:
                await self._pin.hold()
                await self._note(connection, "demo.pinned", "the xmin horizon")
                await self.look(connection)
        return "A transaction stays open: vacuum removes no row that has died since."

    async def release(self) -> str:
        async with self._pressed() as connection:
            await self._release(connection)
        return "The transaction has ended. Vacuum may remove dead rows again."

    async def look(self, connection: Connection) -> None:
        self._scene.pin = await self._pin.look(connection)

    # For the conductor

    async def close(self, connection: Connection) -> None:
        """Let nobody press them any more; return when the last one has had its effect."""
        self.open = False
        async with self._turn:
            await self._release(connection)

    async def undo(self, connection: Connection) -> None:
        """Undo what keeps jobs from their end, wherever it was done: a paused queue, too few workers."""
        paused = await connection.fetch(f"select name from {self._stage.schema}.queues where paused_at is not null")
        for row in paused:
            await self.app.resume(row["name"])
        if len(self._troupe.wanted) < 2:
            self._troupe.start()

    async def end(self) -> None:
        await self._pin.release()
        await self.app.close()

    # One press

    @asynccontextmanager
    async def _pressed(self) -> AsyncIterator[Connection]:
        """One after the other."""
        async with self._turn:
            if not self.open:
                raise HoldfastError(CLOSED)
            connection = await self._stage.connect()
            try:
                yield connection
            finally:
                await connection.close()

    def _chosen(self, name: str | None) -> Member:
        """The worker of this name; without one, that which holds the most jobs."""
        running = [member for member in self._troupe.members if member.runs]
        if name is not None:
            found = next((member for member in self._troupe.members if member.child.name == name), None)
            if found is None:
                raise NotFound(f"The demo has no worker of the name {name!r}")
            if not found.runs:
                raise HoldfastError(f"{name} is not running; it is {found.seen.state}")
            return found
        if not running:
            raise HoldfastError("No worker is running. Add one")
        return max(running, key=lambda member: member.seen.held)

    async def _release(self, connection: Connection) -> None:
        if self._pin.held:
            await self._pin.release()
            await self._note(connection, "demo.released", "the xmin horizon")
            await self.look(connection)

    async def _note(self, connection: Connection, what: str, subject: str) -> None:
        """The journal has who did it, as with every other button."""
        await connection.execute(
            f"insert into {self._stage.schema}.journal (at, what, subject, actor)"
            f" values ({self._stage.schema}.clock(), $1, $2, $3)",
            what, subject, actor(),
        )  # fmt: skip
