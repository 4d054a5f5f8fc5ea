"""A real worker, started by `holdfast worker`, on jobs that do nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ..app import Holdfast
from ..db.database import Connection
from ..demo.children import ChildProcess
from .measurements import Drain, Latency, Sessions
from .place import MeasureError, Place
from .tasks import SCHEMA

READY = 60.0
PATIENCE = 60.0
LOOK_EVERY = 0.02
MARK_EVERY = 0.5
PAUSE = 0.3
"""Average seconds between two jobs of the pick-up: long enough for the worker to fall asleep."""
_NAME = 63
"""Characters of an application name that the server keeps."""


class MeasuredWorker:
    """The worker of a run."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        command = [
            "-m", "holdfast.cli", "worker", "holdfast.measure.tasks:hf", "--log-level", "WARNING", "--drain", "5s",
        ]  # fmt: skip
        self._child = ChildProcess("the worker", command, _environment(place), folder / "worker.log")
        self._marks = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        self._child.start()
        try:
            yield
        finally:
            await self._child.kill()  # its rows are dropped with the schema

    async def pick_up(self, app: Holdfast, seconds: float) -> Latency:
        """Measure from the call of enqueue to the start of the handler, one job at a time, on an idle worker."""
        async with self._place.connection() as watch:
            await self._until_idle(watch, READY)
            task, end, jobs = app.tasks["stamp"], time.monotonic() + seconds, 0
            while time.monotonic() < end or not jobs:
                await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))
                await task.enqueue(time.time())
                jobs += 1
            await self._until_idle(watch, PATIENCE)
            return Latency.of([value * 1000 for value in await self._results(watch, "stamp")])

    async def drain(self, app: Holdfast, jobs: int, seconds: float) -> Drain:
        """Run the enqueued jobs for at most `seconds`. The queue is paused before and after."""
        async with self._place.connection() as watch:
            names, looks = await self._application_names(watch), Counter[str]()
            before = await self._claims(watch)
            await app.resume("default")
            end, marked = time.monotonic() + PATIENCE, 0.0
            while (claims := await self._claims(watch) - before) < jobs and time.monotonic() < end:
                self._check()
                if claims:
                    end = min(end, time.monotonic() + seconds) if not marked else end
                    if time.monotonic() > marked + MARK_EVERY:
                        marked = time.monotonic()
                        await self._mark(app)
                    looks.update(await self._doing(watch, names))
                await asyncio.sleep(LOOK_EVERY)
            await self._mark(app)
            await self._until_marked(watch)
            await app.pause("default")
            return await self._drained(watch, looks)

    async def _mark(self, app: Holdfast) -> None:
        """Have the worker record the time and the CPU that it has used."""
        await app.tasks["mark"].enqueue()
        self._marks += 1

    async def _drained(self, watch: Connection, looks: Counter[str]) -> Drain:
        quarters = [tuple(row) for row in await watch.fetch(self._place.database.sql("measure", "drained"))]
        if len(quarters) < 4:
            raise MeasureError(
                f"The worker ended too few jobs to measure. Its log ends with:\n{self._child.log_tail()}"
            )
        began, ends, jobs = quarters[0][1], [row[2] for row in quarters], [row[0] for row in quarters]
        marks = await self._results(watch, "mark")
        (first, spent), (last, used) = (marks[0], marks[-1]) if marks else ((0.0, 0.0), (0.0, 0.0))
        total = sum(looks.values()) or 1
        return Drain(
            jobs=sum(jobs),
            seconds=max(ends[3] - began, 1e-6),
            first_quarter=jobs[0] / max(ends[0] - began, 1e-6),
            last_quarter=jobs[3] / max(ends[3] - ends[2], 1e-6),
            worker_cpu=(used - spent) / (last - first) if last > first else 0.0,
            sessions=Sessions(**{word: count / total for word, count in looks.items()}, looks=sum(looks.values())),
        )

    async def _doing(self, watch: Connection, names: list[str]) -> list[str]:
        pattern = f"%{self._place.schema}%" if self._place.database.pooler else None
        return [row[0] for row in await watch.fetch(self._place.database.sql("measure", "sessions"), names, pattern)]

    async def _application_names(self, watch: Connection) -> list[str]:
        """Return the names of the worker's two busy sessions: one claims, one completes."""
        workers = await watch.fetch(self._place.database.sql("views", "workers"))
        return [f"holdfast {purpose} {row['id']}"[:_NAME] for row in workers for purpose in ("claim", "write")]

    async def _results(self, watch: Connection, kind: str) -> list[Any]:
        return [json.loads(row[0]) for row in await watch.fetch(self._place.database.sql("measure", "results"), kind)]

    async def _left(self, watch: Connection) -> bool:
        return bool((await watch.fetch(self._place.database.sql("measure", "progress"), True))[0]["left"])

    async def _claims(self, watch: Connection) -> int:
        return int((await watch.fetch(self._place.database.sql("measure", "progress"), False))[0]["claims"])

    async def _until_idle(self, watch: Connection, patience: float) -> None:
        """Wait until the worker has registered and no job is left."""
        end = time.monotonic() + patience
        while not await self._application_names(watch) or await self._left(watch):
            self._check()
            if time.monotonic() > end:
                raise MeasureError(
                    f"The worker did not finish within {patience:.0f} s. Its log ends with:\n{self._child.log_tail()}"
                )
            await asyncio.sleep(LOOK_EVERY)

    async def _until_marked(self, watch: Connection) -> None:
        """Wait until the last mark has ended; marks run before all jobs that wait."""
        end = time.monotonic() + PATIENCE
        while len(await self._results(watch, "mark")) < self._marks and time.monotonic() < end:
            self._check()
            await asyncio.sleep(LOOK_EVERY)

    def _check(self) -> None:
        if not self._child.running:
            raise MeasureError(
                f"The worker ended with code {self._child.exit_code}. Its log ends with:\n{self._child.log_tail()}"
            )


@asynccontextmanager
async def measured_worker(place: Place) -> AsyncIterator[MeasuredWorker]:
    """A worker that runs until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-measure-"))
    try:
        worker = MeasuredWorker(place, folder)
        async with worker.at_work():
            yield worker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(place: Place) -> dict[str, str]:
    """Return our environment, without the flags of the user's own workers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_WORKER")}
    url = {"HOLDFAST_DATABASE_URL": place.database.url} if place.database.url else {}
    return {**kept, **url, SCHEMA: place.schema, "HOLDFAST_POOLER": "1" if place.database.pooler else "0"}
