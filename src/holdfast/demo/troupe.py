"""The workers of the demo: started, killed in the middle of a job, drained, watched."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.db.database import Connection

from . import children
from .children import ChildProcess
from .journal import Journal, Tail
from .scene import Scene, WorkerSeen

FIRST = 3
MOST = 8
"""Workers that the demo runs at a time; buttons add no more."""
_FATE = "id, status::text, lease_generation, claimed_by, extract(epoch from claimed_at)::float8 as claimed_at"


class DemoError(Exception):
    """The demo could not continue; the message says why."""


@dataclass(slots=True)
class Member:
    """A worker, and what is shown of it."""

    child: ChildProcess
    seen: WorkerSeen
    leaves: bool = False
    """Told to drain, or drained: it is expected to end."""

    @property
    def runs(self) -> bool:
        return self.seen.state == "running"


class Troupe:
    def __init__(self, schema: str, environment: Mapping[str, str], folder: Path, scene: Scene) -> None:
        self._schema = schema
        self._environment = environment
        self._folder = folder
        self._scene = scene
        self.members: list[Member] = []
        self.tolerant = False
        """May somebody else drain workers? With a dashboard, its page of workers has a button for that."""
        self._turn = asyncio.Lock()
        self._kill_log = Journal(folder / "kills.log")
        self._effects_log = Tail(folder / "effects.log")
        self._begun: dict[str, dict[str, Any]] = {}
        """Receipts whose handler has started and not finished, by job."""
        self._held: dict[UUID, int] = {}
        """Rows that killed workers held, with their generation, until the jobs have ended."""
        self._victims: dict[UUID, tuple[str, float, int]] = {}
        """The jobs that killed workers were running: a short name, the time of the kill, the generation."""
        self._names: dict[str, Member] = {}
        """Whose id in the registry this is."""
        for _ in range(FIRST):
            self._append()

    def _append(self) -> Member:
        child = children.worker(len(self.members) + 1, self._environment, self._folder)
        member = Member(child, WorkerSeen(child.name))
        self.members.append(member)
        self._scene.workers = [each.seen for each in self.members]
        return member

    @property
    def wanted(self) -> list[Member]:
        """Those that are to run."""
        return [member for member in self.members if not member.leaves]

    @property
    def all_run(self) -> bool:
        return all(member.runs for member in self.wanted)

    # Beginning and end

    def start(self) -> None:
        """Start all that do not run."""
        for member in self.members:
            if not member.child.running:
                self._start(member)

    def _start(self, member: Member) -> None:
        member.child.start()
        member.leaves = False
        member.seen.state, member.seen.pid = "starting", 0

    def add(self) -> Member | None:
        """Start a drained worker again, or another one; None if there are enough."""
        member = next((each for each in self.members if each.leaves and not each.child.running), None)
        if member is None:
            if len(self.members) >= MOST:
                return None
            member = self._append()
        self._start(member)
        return member

    def drain(self, member: Member) -> None:
        """Ask it to finish what it runs, to hand back the rest, and to end (SIGTERM)."""
        member.leaves = True
        member.seen.state = "draining"
        member.child.ask_to_end()

    async def end(self) -> None:
        """Let all end in peace."""
        for member in self.members:
            member.child.ask_to_end()
        for member in self.members:
            member.seen.state = "ended" if await member.child.wait(20) else "did not end"

    async def clear(self) -> None:
        """End all, however they are."""
        for member in self.members:
            member.child.signal_all(signal.SIGKILL)
        for member in self.members:
            await member.child.wait(10)
        self._kill_log.close()

    # Killing

    async def strike(self, connection: Connection, member: Member) -> bool:
        """Kill it if it is running a job; return whether it was."""
        async with self._turn:
            return member.runs and await self._strike(connection, member, anyway=False)

    async def kill(self, connection: Connection, member: Member, patience: float) -> bool:
        """Kill it in the middle of a job, or, if it comes to none within `patience` seconds, as it is.

        Returns whether it was still there to be killed.
        """
        deadline = time.monotonic() + patience
        async with self._turn:
            while member.runs:
                if await self._strike(connection, member, anyway=time.monotonic() > deadline):
                    return True
                await asyncio.sleep(0.02)
            return False

    async def _strike(self, connection: Connection, member: Member, anyway: bool) -> bool:
        """Stop the worker; if it is running a job, send SIGKILL to its supervisor and its process at once.

        A stopped worker cannot end a job between the check and the kill, except by a statement that is already with the
        server. So the recount asks for a later generation.
        """
        child = member.child
        self._read_effects()
        if not anyway and not any(child.owns(line["pid"]) for line in self._begun.values()):
            return False
        child.signal_all(signal.SIGSTOP)
        try:
            self._read_effects()
            held = await self._held_by(connection, member)
            victim = self._running_in(child, held)
            if victim is None and not anyway:
                return False
            await self._kill_log.write(
                "killed", worker=child.name, in_the_middle_of=victim["job"] if victim is not None else None,
                held=[{"id": str(row["id"]), "generation": row["lease_generation"], "kind": row["kind"]}
                      for row in held],
            )  # fmt: skip
            await child.kill()
        finally:
            child.signal_all(signal.SIGCONT)  # if it was left alive
        self._note_kill(member, victim, held)
        child.start()
        return True

    def _running_in(self, child: ChildProcess, held: Sequence[asyncpg.Record]) -> dict[str, Any] | None:
        """Return a job that this worker holds and whose handler has started and not finished."""
        holds = {(str(row["id"]), row["lease_generation"]) for row in held}
        for line in self._begun.values():
            if child.owns(line["pid"]) and (line["job"], line["generation"]) in holds:
                return line
        return None

    def _note_kill(self, member: Member, victim: dict[str, Any] | None, held: Sequence[asyncpg.Record]) -> None:
        seen, scene = member.seen, self._scene
        scene.kills += 1
        seen.kills += 1
        seen.state, seen.pid, seen.held = "killed", 0, 0
        self._held |= {row["id"]: row["lease_generation"] for row in held}
        jobs = "1 job" if len(held) == 1 else f"{len(held)} jobs"
        if victim is None:
            scene.tell(f"killed {seen.name}; it held {jobs}")
            return
        words = f"{victim['kind']} {victim['job'][-6:]}"
        self._victims[UUID(victim["job"])] = (words, time.time(), victim["generation"])
        scene.tell(f"killed {seen.name} while it ran {words}; it held {jobs}")
        self._begun = {job: line for job, line in self._begun.items() if line["pid"] != victim["pid"]}

    async def _held_by(self, connection: Connection, member: Member) -> list[asyncpg.Record]:
        await self.learn_names(connection)
        names = [name for name, owner in self._names.items() if owner is member]
        return list(
            await connection.fetch(
                f"select id, lease_generation, kind from {self._schema}.inbox"
                " where status = 'processing' and claimed_by = any ($1)",
                names,
            )
        )

    def _read_effects(self) -> None:
        for line in self._effects_log.read():
            if line["what"] == "begun":
                self._begun[line["job"]] = line
            elif line["what"] == "done":
                self._begun.pop(line["job"], None)

    # Watching

    async def learn_names(self, connection: Connection) -> None:
        for row in await connection.fetch(
            f"select id, (metadata ->> 'pid')::int as pid, metadata @> '{{\"isolation\": true}}' as isolation"
            f" from {self._schema}.workers"
        ):
            if row["id"] not in self._names:
                owner = next((member for member in self.members if member.child.owns(row["pid"])), None)
                if owner is not None:
                    self._names[row["id"]] = owner
                    if not row["isolation"] and not owner.leaves:
                        owner.seen.pid, owner.seen.state = row["pid"], "running"

    async def look(self, connection: Connection) -> None:
        """See what they do, and what became of the jobs of those that were killed."""
        await self.learn_names(connection)
        counts = await connection.fetch(
            f"select claimed_by, count(*) as held from {self._schema}.inbox where status = 'processing' group by 1"
        )
        for member in self.members:
            member.seen.held = 0
        for row in counts:
            owner = self._names.get(row["claimed_by"])
            if owner is not None and row["claimed_by"].split("-")[-2] == str(owner.seen.pid):
                owner.seen.held += row["held"]
        self.look_at_processes()
        await self._look_after_kills(connection)

    def look_at_processes(self) -> None:
        for member in self.members:
            child, seen = member.child, member.seen
            if child.killed:
                continue  # ending, or ended and about to be restarted
            if not child.running:
                self._ended(member)
            elif seen.state == "killed":
                seen.state = "restarting"
            elif seen.state == "running" and not child.owns(seen.pid):
                seen.state = "crashed, restarting"
                self._scene.tell(f"render_invoice crashed the process of {seen.name}; a new one starts")

    def _ended(self, member: Member) -> None:
        child, seen = member.child, member.seen
        if child.exit_code != 0 or not (member.leaves or self.tolerant):
            raise DemoError(
                f"{child.name} ended unexpectedly with code {child.exit_code}. Its log ends with:\n{child.log_tail()}"
            )
        member.leaves = True
        if seen.state != "drained":
            seen.state, seen.pid = "drained", 0
            self._scene.tell(f"{seen.name} is drained: it has finished or handed back what it held")

    async def _look_after_kills(self, connection: Connection) -> None:
        """Find out what happened to the rows that killed workers held."""
        if not self._held and not self._victims:
            return
        ids = list(self._held.keys() | self._victims.keys())
        rows = await connection.fetch(
            f"select {_FATE} from {self._schema}.inbox where id = any ($1)"
            f" union all select {_FATE} from {self._schema}.archive where id = any ($1)",
            ids,
        )
        for row in rows:
            id, generation = row["id"], row["lease_generation"]
            ended = row["status"] in ("completed", "dead_letter")
            if ended and id in self._held and generation >= self._held[id]:
                self._scene.recovered += generation > self._held.pop(id)
            if id in self._victims and row["claimed_by"] and generation > self._victims[id][2]:
                words, at, _ = self._victims.pop(id)
                owner = self._names.get(row["claimed_by"])
                whom = owner.child.name if owner is not None else "another worker"
                self._scene.tell(f"{words}: claimed by {whom}, {row['claimed_at'] - at:.1f} s after the kill")
