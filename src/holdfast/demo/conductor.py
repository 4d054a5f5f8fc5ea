"""The conductor: starts everything, kills workers, shows what happens, and runs the recount."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from holdfast.db.database import Connection

from . import children
from .journal import Journal, Tail
from .scene import Scene, Screen, WorkerSeen
from .stage import Stage

WORKERS = 3
FIRST_KILL = 1.0
KILL_EVERY = 4.0
"""Seconds between kills; less when the demo is short."""
READY = 60.0
"""Seconds for the workers to appear."""
PATIENCE = 30.0
"""Seconds to wait for the first kill after `--seconds` have passed."""
DRAIN = 60.0
"""Seconds for everything to end after the last order."""
_FATE = "id, status::text, lease_generation, claimed_by, extract(epoch from claimed_at)::float8 as claimed_at"
RECOUNT = Path(__file__).with_name("recount.py")


class DemoError(Exception):
    """The demo could not continue; the message says why."""


class Conductor:
    def __init__(self, stage: Stage, scene: Scene, screen: Screen) -> None:
        self._stage = stage
        self._seconds = scene.total
        self._screen = screen
        self.scene = scene
        self._workers = [children.worker(n + 1, stage.environment, stage.folder) for n in range(WORKERS)]
        self._seen = [WorkerSeen(worker.name) for worker in self._workers]
        self._producer = children.producer(stage.environment, stage.folder)
        self._kill_log = Journal(stage.folder / "kills.log")
        self._orders_log = Tail(stage.folder / "producer.log")
        self._effects_log = Tail(stage.folder / "effects.log")
        self._begun: dict[str, dict[str, Any]] = {}
        """Receipts whose handler has started and not finished, by job."""
        self._held: dict[UUID, int] = {}
        """Rows that killed workers held, with their generation, until the jobs have ended."""
        self._victims: dict[UUID, tuple[str, float, int]] = {}
        """The jobs that killed workers were running: a short name, the time of the kill, the generation."""
        self._names: dict[str, int] = {}
        """The index of our worker, by its id in the registry."""
        self._began = 0.0
        self._last = (0.0, 0)

    async def run(self) -> dict[str, dict[str, float]]:
        """Run the whole demo; return what the recount found."""
        try:
            self.scene.server = await self._stage.prepare()
            self.scene.workers = self._seen
            self._screen.announce(self.scene, "starting three workers")
            connection = await self._stage.connect()
            try:
                await self._play(connection)
            finally:
                await connection.close()
            return await self._recount()
        finally:
            await self._clear()

    async def _play(self, connection: Connection) -> None:
        for worker in self._workers:
            worker.start()
        await self._all_ready(connection)
        self._producer.start()
        while not self._orders_log.read():
            self._check_producer()
            await asyncio.sleep(0.02)
        self._began = time.monotonic()
        self.scene.act = "orders come in"
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
        for worker in self._workers:
            worker.ask_to_end()
        for worker, seen in zip(self._workers, self._seen, strict=True):
            seen.state = "ended" if await worker.wait(20) else "did not end"
        self._screen.show(self.scene)

    # Killing

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
            if self._elapsed >= next_at and await self._try_kill(connection, target % WORKERS):
                target += 1
                next_at = self._elapsed + every

    async def _try_kill(self, connection: Connection, number: int) -> bool:
        """Stop the worker; if it is running a job, send SIGKILL to its supervisor and its process at once.

        A stopped worker cannot end a job between the check and the kill, except by a statement that is already with the
        server. So the recount asks for a later generation.
        """
        worker, seen = self._workers[number], self._seen[number]
        if not all(other.state == "running" for other in self._seen):
            return False  # two workers must be left to take over
        self._read_effects()
        running = [line for line in self._begun.values() if worker.owns(line["pid"])]
        if not running:
            return False
        worker.signal_all(signal.SIGSTOP)
        self._read_effects()
        held = await self._held_by(connection, number)
        victim = self._running_in(worker, held)
        if victim is None:
            worker.signal_all(signal.SIGCONT)
            return False
        await self._kill_log.write(
            "killed", worker=worker.name, in_the_middle_of=victim["job"],
            held=[{"id": str(row["id"]), "generation": row["lease_generation"], "kind": row["kind"]} for row in held],
        )  # fmt: skip
        await worker.kill()
        self._note_kill(seen, victim, held)
        worker.start()
        return True

    def _running_in(self, worker: children.ChildProcess, held: Sequence[asyncpg.Record]) -> dict[str, Any] | None:
        """Return a job that this worker holds and whose handler has started and not finished."""
        fences = {(str(row["id"]), row["lease_generation"]) for row in held}
        for line in self._begun.values():
            if worker.owns(line["pid"]) and (line["job"], line["generation"]) in fences:
                return line
        return None

    def _note_kill(self, seen: WorkerSeen, victim: dict[str, Any], held: Sequence[asyncpg.Record]) -> None:
        self.scene.kills += 1
        seen.kills += 1
        seen.state, seen.pid, seen.held = "killed", 0, 0
        self._held |= {row["id"]: row["lease_generation"] for row in held}
        words = f"{victim['kind']} {victim['job'][-6:]}"
        self._victims[UUID(victim["job"])] = (words, time.time(), victim["generation"])
        jobs = "1 job" if len(held) == 1 else f"{len(held)} jobs"
        self.scene.tell(f"killed {seen.name} while it ran {words}; it held {jobs}")
        self._begun = {job: line for job, line in self._begun.items() if line["pid"] != victim["pid"]}

    async def _held_by(self, connection: Connection, number: int) -> list[asyncpg.Record]:
        await self._learn_names(connection)
        names = [name for name, owner in self._names.items() if owner == number]
        return list(
            await connection.fetch(
                f"select id, lease_generation, kind from {self._stage.schema}.inbox"
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
        await self._look_at_workers(connection)
        await self._look_after_kills(connection)

    def _note_rate(self) -> None:
        at, completed = self._last
        if self.scene.seconds - at >= 0.9:
            self.scene.rates.append((self.scene.completed - completed) / (self.scene.seconds - at))
            self._last = (self.scene.seconds, self.scene.completed)

    async def _learn_names(self, connection: Connection) -> None:
        for row in await connection.fetch(
            f"select id, (metadata ->> 'pid')::int as pid, metadata @> '{{\"isolation\": true}}' as isolation"
            f" from {self._stage.schema}.workers"
        ):
            if row["id"] not in self._names:
                owner = next((n for n, worker in enumerate(self._workers) if worker.owns(row["pid"])), None)
                if owner is not None:
                    self._names[row["id"]] = owner
                    if not row["isolation"]:
                        self._seen[owner].pid = row["pid"]
                        self._seen[owner].state = "running"

    async def _look_at_workers(self, connection: Connection) -> None:
        await self._learn_names(connection)
        counts = await connection.fetch(
            f"select claimed_by, count(*) as held from {self._stage.schema}.inbox"
            " where status = 'processing' group by 1"
        )
        for seen in self._seen:
            seen.held = 0
        for row in counts:
            owner = self._names.get(row["claimed_by"])
            if owner is not None and self._alive(row["claimed_by"], owner):
                self._seen[owner].held += row["held"]
        self._look_at_processes()

    def _look_at_processes(self) -> None:
        for worker, seen in zip(self._workers, self._seen, strict=True):
            if worker.killed:
                continue  # ending, or ended and about to be restarted
            if not worker.running:
                raise DemoError(
                    f"{worker.name} ended unexpectedly with code {worker.exit_code}."
                    f" Its log ends with:\n{worker.log_tail()}"
                )
            if seen.state == "killed":
                seen.state = "restarting"
            if seen.state == "running" and not worker.owns(seen.pid):
                seen.state = "crashed, restarting"
                self.scene.tell(f"render_invoice crashed the process of {seen.name}; a new one starts")

    def _alive(self, name: str, owner: int) -> bool:
        return name.split("-")[-2] == str(self._seen[owner].pid)

    async def _look_after_kills(self, connection: Connection) -> None:
        """Find out what happened to the rows that killed workers held."""
        if not self._held and not self._victims:
            return
        schema = self._stage.schema
        ids = list(self._held.keys() | self._victims.keys())
        rows = await connection.fetch(
            f"select {_FATE} from {schema}.inbox where id = any ($1)"
            f" union all select {_FATE} from {schema}.archive where id = any ($1)",
            ids,
        )
        for row in rows:
            id, generation = row["id"], row["lease_generation"]
            ended = row["status"] in ("completed", "dead_letter")
            if ended and id in self._held and generation >= self._held[id]:
                self.scene.recovered += generation > self._held.pop(id)
            if id in self._victims and row["claimed_by"] and generation > self._victims[id][2]:
                words, at, _ = self._victims.pop(id)
                owner = self._names.get(row["claimed_by"])
                whom = self._workers[owner].name if owner is not None else "another worker"
                self.scene.tell(f"{words}: claimed by {whom}, {row['claimed_at'] - at:.1f} s after the kill")

    # Beginning and end

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began if self._began else 0.0

    async def _all_ready(self, connection: Connection) -> None:
        deadline = time.monotonic() + READY
        while not all(seen.state == "running" for seen in self._seen):
            await self._learn_names(connection)
            for worker in self._workers:
                if not worker.running or time.monotonic() > deadline:
                    raise DemoError(f"{worker.name} did not start. Its log ends with:\n{worker.log_tail()}")
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
            await asyncio.sleep(0.05)

    async def _recount(self) -> dict[str, dict[str, float]]:
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
        found: dict[str, dict[str, float]] = json.loads(done.stdout)
        return found

    async def _clear(self) -> None:
        """End all processes and remove the schema, however the demo ended."""
        for child in (self._producer, *self._workers):
            child.signal_all(signal.SIGKILL)
        for child in (self._producer, *self._workers):
            await child.wait(10)
        self._kill_log.close()
        await self._stage.remove()
