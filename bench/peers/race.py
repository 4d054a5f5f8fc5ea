"""The race: we and the peers take turns in each discipline, and what was measured goes into the figures."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from math import ceil
from statistics import median

import asyncpg

from .. import paces
from ..databases import Databases
from ..figures import OURS, Results
from ..ground import Ground
from ..paces import Burst
from ..pickup import Pickups
from ..turn.measured import Measured
from ..turn.pickup import by_round
from . import environment
from .draining import Drained, drain
from .driver import Driver, DriverFailed, Event, Speaker
from .ours import Ours
from .peer import PEERS, LeftOut

HOLDERS = {
    "snapshot": ("begin isolation level repeatable read", "select count(*) from pg_class"),
    "xid": ("begin", "select pg_current_xact_id()"),
}
WORDS = {"snapshot": "a snapshot is held", "xid": "a transaction id is held"}
PAUSES = (0.05, 0.15)
PACES = "paces and bursts"
WARM = 20
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    share: float
    """Of the jobs of a full drain."""
    repeats: int
    singles: int
    pickups: int
    pinned_repeats: int
    pinned_jobs: int
    """For peers that drain more than 10,000 a second;"""
    pinned_seconds: float
    """others get as many as they do in this time."""


FULL = Size(1.0, 5, 600, 100, 3, 400_000, 12.0)
REDUCED = Size(0.4, 3, 300, 30, 1, 60_000, 4.0)


@dataclass(slots=True)
class Entrant:
    """A peer in the run: its drivers, the template with its schema, and what was measured."""

    driver: Driver
    template: str
    drained: list[Drained] = field(default_factory=list)
    bulk: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    waits: list[list[float]] = field(default_factory=list)
    pickups: Pickups = field(default_factory=Pickups)
    pinned: dict[str, list[Drained]] = field(default_factory=lambda: {name: [] for name in HOLDERS})

    @property
    def name(self) -> str:
        return self.driver.peer.name


DISCIPLINES = ("drain", "enqueue", "pickup", "pinned")
"""Axes in which peers take part."""


async def run(ground: Ground, results: Results, full: bool, named: Sequence[str]) -> None:
    """In the axes that are named, or in all; `pinned` takes its number of jobs from the drain."""
    size = FULL if full else REDUCED
    wanted = set(named) or set(DISCIPLINES)
    async with AsyncExitStack() as stack:
        databases = await stack.enter_async_context(Databases.on(ground))
        race = Race(ground, databases, results, size)
        ours = Ours(ground, results.size)
        for name in results.beside:
            await race.enter(stack, name)
        if wanted & {"drain", "pinned"}:
            await race.turns("drain", size.repeats, race.drain, ours.drain)
            ours.report_drain(results)
            race.report_drain()
        if "enqueue" in wanted:
            await race.turns("enqueue", size.repeats, race.enqueue, ours.enqueue)
            ours.report_enqueue(results)
            race.report_enqueue()
        if "pickup" in wanted:
            await race.turns("pick-up", size.repeats, race.pickup)
            race.report_pickup()
            await race.turns(PACES, paces.REPEATS[results.size], race.at_paces, ours.pickup)
            ours.pickups.report(results, OURS)
            race.report_paces()
        if "pinned" in wanted:
            await race.turns("pinned", 1, race.pinned)
            race.report_pinned()


class Race:
    def __init__(self, ground: Ground, databases: Databases, results: Results, size: Size) -> None:
        self._ground = ground
        self._databases = databases
        self._results = results
        self._size = size
        self._entrants: list[Entrant] = []

    async def enter(self, stack: AsyncExitStack, name: str) -> None:
        """Make the environment and the template with the schema."""
        peer = PEERS[name]
        try:
            driver = Driver(peer, await environment.command(peer))
            template = await stack.enter_async_context(self._databases.fresh())
            await driver.call("install", template)
            self._entrants.append(Entrant(driver, template))
        except (LeftOut, DriverFailed) as why:
            leave_out(self._results, name, "all", why)

    async def turns(
        self,
        what: str,
        repeats: int,
        once: Callable[[Entrant], Awaitable[str]],
        ours: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """We, if we take part, and each peer once, then each again. One that fails takes part no longer."""
        for repeat in range(repeats):
            if ours is not None:
                print(f"    {OURS}: {what} {repeat + 1} of {repeats}: {await ours()}", flush=True)
            for entrant in list(self._entrants):
                if what == PACES and not entrant.driver.peer.hands:
                    continue
                began = time.monotonic()
                try:
                    said = await once(entrant)
                except (DriverFailed, TimeoutError, asyncpg.PostgresError) as why:
                    self._entrants.remove(entrant)
                    leave_out(self._results, entrant.name, f"{what} and what follows", why)
                else:
                    took = time.monotonic() - began
                    print(f"    {entrant.name}: {what} {repeat + 1} of {repeats}: {said} ({took:.0f} s)", flush=True)

    async def drain(self, entrant: Entrant) -> str:
        jobs = _fourfold(entrant.driver.peer.jobs * self._size.share)
        async with self._databases.fresh(entrant.template) as url:
            await entrant.driver.call("bulk", url, jobs)
            entrant.drained.append(await drain(self._ground, entrant.driver, url, jobs))
        return f"{entrant.drained[-1].rate:,.0f} jobs/s"

    async def enqueue(self, entrant: Entrant) -> str:
        async with self._databases.fresh(entrant.template) as url:
            done = await entrant.driver.call("single", url, self._size.singles)
            entrant.single.append(done["jobs"] / done["seconds"])
            done = await entrant.driver.call("bulk", url, entrant.driver.peer.bulk)
            entrant.bulk.append(done["jobs"] / done["seconds"])
        return f"{entrant.single[-1]:,.0f} jobs/s one by one, {entrant.bulk[-1]:,.0f} many at a time"

    async def pickup(self, entrant: Entrant) -> str:
        jobs = self._size.pickups
        async with (
            self._databases.fresh(entrant.template) as url,
            entrant.driver.worker("worker-pickup", url, 0) as worker,
        ):
            # The first one does not count: connections, prepared statements, caches.
            await entrant.driver.call("pickup", url, jobs + 1, *PAUSES)
            waits = [(await worker.until("waited"))["ms"] for _ in range(jobs + 1)]
        entrant.waits.append(sorted(waits[1:]))
        return f"median {median(waits[1:]):.1f} ms"

    async def at_paces(self, entrant: Entrant) -> str:
        """Paces with the settings of a drain; bursts over a fleet of workers that have one hand each."""
        async with self._databases.fresh(entrant.template) as url:
            await self._paces(entrant, url)
        for hands, bursts in paces.fleets(self._results.size).items():
            async with self._databases.fresh(entrant.template) as url:
                await self._bursts(entrant, url, hands, bursts)
        return entrant.pickups.said()

    async def _paces(self, entrant: Entrant, url: str) -> None:
        async with entrant.driver.worker("worker-pickup", url, 0) as worker:
            self._settings(entrant, worker.ready)
            await entrant.driver.call("pickup", url, WARM, 0, 0.01)
            await heard([worker], WARM)
            for pace in paces.paces(self._results.size):
                jobs = pace.jobs[self._results.size]
                await entrant.driver.call("pickup", url, jobs, *pace.between)
                waits = [ms for _, ms in await heard([worker], jobs)]
                entrant.pickups.add(Measured("pickup", pace.case, pace.words, "ms", waits, False))

    async def _bursts(self, entrant: Entrant, url: str, hands: int, bursts: Sequence[Burst]) -> None:
        rounds = paces.ROUNDS[self._results.size]
        async with AsyncExitStack() as stack:
            fleet = [
                await stack.enter_async_context(entrant.driver.worker("worker-hand", url, 0))
                for _ in range(hands // entrant.driver.peer.hands)
            ]
            for burst in bursts:
                # The first round does not count: connections, prepared statements, caches.
                for number in (1, rounds):
                    await entrant.driver.call("burst", url, burst.jobs, number, *paces.SILENCE, burst.how)
                    waits = await heard(fleet, burst.jobs * number)
                for measured in by_round("pickup", burst, waits):
                    entrant.pickups.add(measured)

    async def pinned(self, entrant: Entrant) -> str:
        """Fill one database, and drain copies of it: filling takes a slow peer longer than draining."""
        rate = median(drained.rate for drained in entrant.drained)
        jobs = self._size.pinned_jobs if rate > 10_000 else _fourfold(rate * self._size.pinned_seconds)
        async with self._databases.fresh(entrant.template) as filled:
            await entrant.driver.call("bulk", filled, jobs)
            for _ in range(self._size.pinned_repeats):
                for name, done in entrant.pinned.items():
                    async with self._databases.fresh(filled) as url:
                        done.append(await drain(self._ground, entrant.driver, url, jobs, HOLDERS[name]))
        return f"{jobs:,} jobs"

    def report_drain(self) -> None:
        for entrant in self._entrants:
            runs = entrant.drained
            self._settings(entrant, runs[0].ready)
            self._add(entrant, "drain", "rate", f"{runs[0].jobs:,} no-op jobs", "jobs/s", [r.rate for r in runs])
            used = [r.cpu / r.jobs * 1e6 for r in runs if r.cpu is not None]
            if used:
                self._add(entrant, "drain", "cpu", "CPU of worker and server", "µs/job", used)
            self._add(entrant, "drain", "wal", "WAL", "bytes/job", [r.wal / r.jobs for r in runs])
            self._add(entrant, "drain", "memory", "memory of the worker", "MB", [r.memory for r in runs])

    def report_enqueue(self) -> None:
        for entrant in self._entrants:
            self._add(entrant, "enqueue", "bulk", "many at a time", "jobs/s", entrant.bulk)
            self._add(entrant, "enqueue", "single", "one per commit", "jobs/s", entrant.single)

    def report_pickup(self) -> None:
        for entrant in self._entrants:
            for share, words in ((50, "median"), (99, "99th percentile")):
                values = [waits[ceil(len(waits) * share / 100) - 1] for waits in entrant.waits]
                name = f"idle: {words} of {len(entrant.waits[0])}"
                self._add(entrant, "pickup", f"idle.p{share}", name, "ms", values)

    def report_paces(self) -> None:
        for entrant in self._entrants:
            entrant.pickups.report(self._results, entrant.name)

    def report_pinned(self) -> None:
        for entrant in self._entrants:
            for holder, done in entrant.pinned.items():
                for n in range(4):
                    name = f"{done[0].jobs:,} jobs, {WORDS[holder]}: quarter {n + 1}"
                    rates = [r.quarters[n] for r in done]
                    self._add(entrant, "pinned", f"{holder}.q{n + 1}", name, "jobs/s", rates)

    def _settings(self, entrant: Entrant, ready: Event) -> None:
        if entrant.name not in self._results.settings:
            self._results.settings[entrant.name] = "{version} on {runtime}: {settings}".format_map(ready)
            print(f"    {entrant.name} {self._results.settings[entrant.name]}", flush=True)

    def _add(self, entrant: Entrant, axis: str, case: str, name: str, unit: str, values: Sequence[float]) -> None:
        self._results.add(axis, name, unit, values, system=entrant.name, case=case)


def leave_out(results: Results, name: str, what: str, why: Exception) -> None:
    """Say in the figures and on the terminal why a peer takes part no longer."""
    words = f"left out of {what}: {str(why) or type(why).__name__}"
    results.settings[name] = "; ".join(filter(None, (results.settings.get(name), words)))
    print(f"    {name} is {words}", flush=True)
    # Not into the figures: it may name paths and addresses.
    if isinstance(why, DriverFailed) and why.last_words:
        print(textwrap.indent(why.last_words, "        "), flush=True)


async def heard(workers: Sequence[Speaker], jobs: int) -> list[tuple[int, float]]:
    """What workers say of so many jobs, whoever of them ran each: the job's number, and milliseconds."""
    waits: list[tuple[int, float]] = []
    listening = {asyncio.create_task(worker.until("waited")): worker for worker in workers}
    try:
        while len(waits) < jobs:
            done, _ = await asyncio.wait(listening, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise DriverFailed(f"{len(waits)} of {jobs} jobs have started, and no other for {PATIENCE:.0f} s")
            for each in done:
                worker, said = listening.pop(each), each.result()
                waits.append((said["number"], said["ms"]))
                listening[asyncio.create_task(worker.until("waited"))] = worker
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    return waits


def _fourfold(jobs: float) -> int:
    """As many as make four even quarters and a few batches."""
    return max(int(jobs) // 400 * 400, 400)
