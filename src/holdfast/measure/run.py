"""All steps in order, and the clean-up, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from ..app import Holdfast
from ..db.database import Database
from . import server, tasks, trips
from .diagnosis import Diagnosis, diagnose
from .measurements import Measurements
from .place import Place
from .worker import measured_worker

Tell = Callable[[str], None]

OVERHEAD = 5.0
"""Seconds for what is not measured: creating the schema, starting the worker, dropping the schema."""
SHARES = {"round_trip": 0.05, "commit": 0.12, "enqueue": 0.12, "pickup": 0.2, "bulk": 0.16, "drain": 0.35}
"""Shares of the remaining time."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Ctrl-C or another signal, `number`, stopped the run; everything has been removed."""

    def __init__(self, number: int, schema: str) -> None:
        self.number = number
        self.schema = schema


@dataclass(frozen=True, slots=True)
class Result:
    measurements: Measurements
    diagnosis: Diagnosis
    leftovers: list[str]
    """Schemas of earlier runs that were killed."""


async def measure(installation: Database, seconds: float, tell: Tell) -> Result:
    """Measure for about `seconds`, and remove everything before this returns or raises."""
    place = Place.beside(installation)
    work = asyncio.create_task(_measure(place, installation, seconds, tell))
    with _signals(work) as asked:
        try:
            await asyncio.gather(work, return_exceptions=True)
        finally:
            tell("cleaning up")
            await place.remove()
    if asked:
        raise Interrupted(asked[0], place.schema)
    return work.result()


@contextmanager
def _signals(work: asyncio.Task[Result]) -> Iterator[list[int]]:
    """A signal ends the measuring, but not the clean-up. The list holds the signals that arrived."""
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def stop(number: int) -> None:
        asked.append(number)
        work.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield asked
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _measure(place: Place, installation: Database, seconds: float, tell: Tell) -> Result:
    spans = {name: share * max(1.0, seconds - OVERHEAD) for name, share in SHARES.items()}
    await place.make()
    tell(
        f"runs in the schema {place.schema} at {place.database.shown} for about {seconds:.0f} s; "
        "Ctrl-C stops it and drops the schema"
    )
    for name in place.leftovers:
        tell(f"an earlier run was killed and left the schema {name}; drop it with: drop schema {name} cascade")
    app = tasks.register(Holdfast(place.database.url, schema=place.schema, pooler=place.database.pooler))
    try:
        found = await _all(place, app, installation, spans, tell)
    finally:
        await app.close()
    return Result(found, diagnose(found), place.leftovers)


async def _all(
    place: Place, app: Holdfast, installation: Database, spans: dict[str, float], tell: Tell
) -> Measurements:
    def step(number: int, words: str, name: str) -> float:
        tell(f"{number}/6 {words}, {spans[name]:.0f} s")
        return spans[name]

    load = os.getloadavg()[0]
    facts, written = await server.look(place), await server.written(place)
    began, before = time.monotonic(), await server.installation_before(installation)
    round_trip = await trips.round_trip(place, step(1, "round trips", "round_trip"))
    commit = await trips.commit(place, step(2, "commits", "commit"))
    enqueue = await trips.enqueue(app, step(3, "enqueues, one per commit", "enqueue"))
    async with measured_worker(place) as worker:
        pickup = await worker.pick_up(app, step(4, "pick-up on an idle worker", "pickup"))
        await app.pause("default")
        jobs, bulk_rate, bulk_cpu = await trips.bulk(app, step(5, "enqueues, 1,000 per call", "bulk"))
        drain = await worker.drain(app, jobs, step(6, "drain with one worker process", "drain"))
    after = await server.written(place)
    own = await server.installation(installation, before, time.monotonic() - began)
    return Measurements(
        server=facts, round_trip=round_trip, commit=commit, enqueue=enqueue, bulk_rate=bulk_rate, bulk_cpu=bulk_cpu,
        pickup=pickup, drain=drain, checkpoints_asked=after.checkpoints - written.checkpoints,
        wal_megabytes=(after.wal - written.wal) / 1e6, installation=own, cores=_cores(), load=load,
        uvloop=find_spec("uvloop") is not None,
    )  # fmt: skip


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
