"""Claim time against the backlog: batches of 100 by the real claimer, each of rows that nobody touched before.

Every scene is a database of its own on one server. The scenes take turns, one claim each, so that what disturbs the
machine disturbs them alike. After each claim its rows are completed and as many new ones put behind the backlog, which
thus keeps its depth; neither is timed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median

import asyncpg

from holdfast.db.database import Database
from holdfast.db.link import Link
from holdfast.inbox import ending
from holdfast.inbox.claim import FreeCourse, Known
from holdfast.model.outcome import Completed
from holdfast.ownership import members

from .figures import Results, at_most
from .ground import Ground, fill
from .turns import say

BATCH = 100
SHALLOW = 1_000
WARM = 20
"""First claims of a scene that do not count: cold caches, custom plans, and the first pass from the very start."""

CASES = ("shallow", "shallow.analysed", "deep", "deep.analysed", "tomorrow", "unknown")
"""The scenes, in their order."""

Prepare = Callable[[asyncpg.Connection, int], Awaitable[None]]


async def _backlog(connection: asyncpg.Connection, deep: int) -> None:
    await fill(connection, deep)


async def _shallow(connection: asyncpg.Connection, deep: int) -> None:
    await fill(connection, SHALLOW)


async def _tomorrow(connection: asyncpg.Connection, deep: int) -> None:
    await fill(connection, deep // 2, delay=86400)
    await fill(connection, SHALLOW)


async def _unknown(connection: asyncpg.Connection, deep: int) -> None:
    await fill(connection, deep // 10, kind="of_another_worker")
    await fill(connection, SHALLOW)


@dataclass(slots=True)
class Scene:
    """One database, its claimer, and the times of its claims in milliseconds."""

    name: str
    connection: asyncpg.Connection
    link: Link
    claimer: FreeCourse
    times: list[float] = field(default_factory=list)

    async def step(self) -> float:
        """One claim, timed; then everything as it was."""
        began = time.perf_counter()
        batch = await self.claimer.claim(BATCH)
        took = time.perf_counter() - began
        if len(batch.claims) != BATCH:
            raise AssertionError(f"{self.name}: expected {BATCH} claims, got {len(batch.claims)}")
        report = await ending.write(self.link, [(claim, Completed()) for claim in batch.claims])
        if report.completed != BATCH:
            raise AssertionError(f"{self.name}: expected {BATCH} completions, got {report.completed}")
        await fill(self.connection, BATCH)
        return took * 1000


async def run(ground: Ground, results: Results, full: bool) -> None:
    deep = 1_000_000
    rounds = 400 if full else 150
    prepared: dict[str, tuple[Prepare, bool]] = {
        f"{SHALLOW:,} pending, never analysed": (_shallow, False),
        f"{SHALLOW:,} pending, analysed": (_shallow, True),
        f"{deep:,} pending, never analysed": (_backlog, False),
        f"{deep:,} pending, analysed": (_backlog, True),
        f"{deep // 2:,} rows due tomorrow": (_tomorrow, False),
        f"{deep // 10:,} of an unknown kind in front": (_unknown, False),
    }
    async with AsyncExitStack() as stack:
        scenes = []
        for name, (prepare, analysed) in prepared.items():
            say(f"filling: {name}")
            scenes.append(await _scene(stack, ground, name, prepare, analysed, deep))
        for scene in scenes:
            for _ in range(WARM):
                await scene.step()
        for turn in range(rounds):
            if turn % 50 == 0:
                say(f"{turn} of {rounds} claims")
            random.shuffle(scenes)
            for scene in scenes:
                scene.times.append(await scene.step())
    times = {scene.name: scene.times for scene in scenes}
    shallow, shallow_analysed, *deeper = prepared
    for (name, _), case in zip(prepared.items(), CASES, strict=True):
        medians = [median(part) for part in _parts(times[name])]
        results.add("claim", f"{name}: median of {rounds}", "ms", medians, case=case)
        results.add("claim", f"{name}: 95th percentile", "ms", [_percentile(times[name])], case=f"{case}.p95")
    for name, case in zip(deeper, CASES[2:], strict=True):
        base = times[shallow_analysed if prepared[name][1] else shallow]
        ratios = [median(here) / median(there) for here, there in zip(_parts(times[name]), _parts(base), strict=True)]
        results.add("claim", f"{name} ÷ {SHALLOW:,}", "", ratios, at_most(1.5), case=f"{case}.ratio")
        # The median does not see the rescans, one claim in ten or twenty.
        slow = _percentile(times[name]) / _percentile(base)
        results.add("claim", f"{name} ÷ {SHALLOW:,}: 95th percentile", "", [slow], at_most(3), case=f"{case}.ratio.p95")


def _percentile(times: list[float]) -> float:
    return sorted(times)[len(times) * 95 // 100]


async def _scene(
    stack: AsyncExitStack, ground: Ground, name: str, prepare: Prepare, analysed: bool, deep: int
) -> Scene:
    url = await stack.enter_async_context(ground.database())
    connection = await asyncpg.connect(url)
    stack.push_async_callback(connection.close)
    # Or autovacuum would analyse it behind our back.
    await connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
    await prepare(connection, deep)
    if analysed:
        await connection.execute("vacuum analyze holdfast.inbox")
    link = Link(Database(url), "bench")
    stack.push_async_callback(link.close)
    await members.register(link, "bench", {})
    return Scene(name, connection, link, FreeCourse(link, "bench", ["default"], Known({"noop": (1, 1)}), 90.0))


def _parts(times: list[float], number: int = 5) -> list[list[float]]:
    """The claims in consecutive parts of equal size: their medians show the spread."""
    size = len(times) // number
    return [times[start * size : (start + 1) * size] for start in range(number)]
