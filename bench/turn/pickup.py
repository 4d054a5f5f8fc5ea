"""Paces and bursts, of ours: a real worker, and this process as the producer. Handlers note in a file when they start.

The file costs the handler one short write, wherever it runs, and nobody has to ask the database meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast import Holdfast

from .. import paces
from ..app import STARTS, Start, holding, noting
from ..paces import Burst, Pace
from ..peers.speech.speech import Payload, bursts, paced
from ..processes import check_workers, worker
from .measured import Measured
from .place import Place

WARM = 20
SETTLED = 2.0
"""Seconds after which the first chores of a new worker are done: 300 jobs at 2 ms would have to bear all of them."""
PATIENCE = 60.0
LOOK_EVERY = 0.02
_ALIVE = "select count(*) from holdfast.workers where status = 'alive'"


class Client:
    """Ours, as the peers' drivers have theirs."""

    def __init__(self, app: Holdfast, start: Start) -> None:
        self._task: Any = app.task(start)

    async def one(self, payload: Payload) -> object:
        return await self._task.enqueue(**payload)

    async def many(self, payloads: Sequence[Payload]) -> object:
        return await self._task.enqueue_many(payloads)


async def at_paces(place: Place) -> list[Measured]:
    """One worker, one job at a time."""
    app = Holdfast(place.url)
    client = Client(app, noting)
    try:
        with _starts() as starts, worker(place.url, "-c", "20") as supervisor:
            await _up(place, 1)
            await asyncio.sleep(SETTLED)
            await paced(client, WARM, 0, 0.01)
            await starts.next(WARM)
            return [await _pace(place, client, starts, supervisor, pace) for pace in paces.paces(place.size)]
    finally:
        await app.close()


async def _pace(place: Place, client: Client, starts: Starts, supervisor: int, pace: Pace) -> Measured:
    jobs = pace.jobs[place.size]
    before = place.used(supervisor)
    await paced(client, jobs, *pace.between)
    waits = [ms for _, ms in await starts.next(jobs)]
    return Measured("pickup", pace.case, pace.words, "ms", waits, False, place.per_job(before, supervisor, jobs))


async def in_bursts(place: Place) -> list[Measured]:
    """Fleets of one-hand workers, asleep."""
    measured = []
    for hands, chosen in paces.fleets(place.size).items():
        app = Holdfast(place.url)
        client = Client(app, holding)
        try:
            with _starts() as starts, worker(place.url, "-c", "1", "--processes", str(hands)) as supervisor:
                await _up(place, hands)
                for burst in chosen:
                    measured += await _burst(place, client, starts, supervisor, burst)
        finally:
            await app.close()
    return measured


async def _up(place: Place, hands: int) -> None:
    async with place.connected() as watch:
        deadline = time.monotonic() + PATIENCE
        while await watch.fetchval(_ALIVE) < hands:
            check_workers()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{hands} workers are not up after {PATIENCE:.0f} s")
            await asyncio.sleep(LOOK_EVERY)


async def _burst(place: Place, client: Client, starts: Starts, supervisor: int, burst: Burst) -> list[Measured]:
    """The first round does not count: connections, prepared statements, caches."""
    await bursts(client, burst.jobs, 1, *paces.SILENCE, burst.how)
    await starts.next(burst.jobs)
    rounds = paces.ROUNDS[place.size]
    before = place.used(supervisor)
    await bursts(client, burst.jobs, rounds, *paces.SILENCE, burst.how)
    waits = await starts.next(burst.jobs * rounds)
    cpu = place.per_job(before, supervisor, burst.jobs * rounds)
    return by_round("pickup", burst, waits, cpu)


def by_round(axis: str, burst: Burst, waits: Sequence[tuple[int, float]], cpu: float | None = None) -> list[Measured]:
    """From the number and the milliseconds of each job: when each started, and the last of each round."""
    last: dict[int, float] = {}
    for number, ms in waits:
        last[number // burst.jobs] = max(last.get(number // burst.jobs, 0.0), ms)
    each = [ms for _, ms in waits]
    return [
        Measured(axis, f"{burst.case}.each", f"{burst.words}: each", "ms", each, False, cpu),
        Measured(axis, f"{burst.case}.last", f"{burst.words}: the last", "ms", list(last.values()), False),
    ]


class Starts:
    """The file in which handlers note the number of a job and how long it was on its way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    async def next(self, jobs: int) -> list[tuple[int, float]]:
        """The next so many, when they are there."""
        deadline = time.monotonic() + PATIENCE
        while len(lines := self._path.read_text().splitlines()) < self._read + jobs:
            check_workers()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(lines) - self._read} of {jobs} jobs have started after {PATIENCE:.0f} s")
            await asyncio.sleep(LOOK_EVERY)
        found = [line.split() for line in lines[self._read :]]
        self._read = len(lines)
        if len({number for number, _ in found}) != jobs:
            raise AssertionError(f"{jobs} jobs were enqueued, and handlers started {len(found)} times")
        return [(int(number), float(ms)) for number, ms in found]


@contextmanager
def _starts() -> Iterator[Starts]:
    """Told to the workers that are started meanwhile, by the environment."""
    with tempfile.NamedTemporaryFile(prefix="bench-starts-") as file:
        os.environ[STARTS] = file.name
        try:
            yield Starts(Path(file.name))
        finally:
            del os.environ[STARTS]
