"""How attempts end, written in batches: complete, fail, snooze, release – each under its fence.

A row that a statement does not return was lost, unless an earlier try of the same statement lost its answer: then
what ended under this very fence is looked up before anything is called lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import asyncpg

from ..model.job import Claim
from ..model.outcome import Abandoned, Completed, Failed, Outcome, Released, Snoozed
from ..probes import probe

log = logging.getLogger("holdfast.worker")

RELEASE_TRIES, RELEASE_AGAIN = 100, 0.01

Ending = tuple[Claim, Outcome]


class Runner(Protocol):
    """Runs the statement of `room/name.sql`: a link, or a handler's own transaction."""

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]: ...


@dataclass(slots=True)
class Report:
    """What became of a batch of endings."""

    completed: int = 0
    abandoned: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    released: int = 0
    late: int = 0
    lost: list[Claim] = field(default_factory=list)
    buried: list[tuple[Claim, str]] = field(default_factory=list)
    """Those whose last attempt this was, with its error."""


async def write(runner: Runner, worker: str, endings: Sequence[Ending], repeated: bool = False) -> Report:
    """Write the endings. `repeated`: an earlier try was sent and its answer never came."""
    report = Report()
    ranked = sorted(endings, key=_by_id)
    final = [e for e in ranked if isinstance(e[1], (Completed, Abandoned))]
    if final:
        await _complete(runner, worker, final, repeated, report)
    if len(final) != len(ranked):
        for crashed in (False, True):
            failed = [e for e in ranked if isinstance(e[1], Failed) and e[1].crashed is crashed]
            if failed:
                await _fail(runner, worker, failed, crashed, report)
        if snoozed := [e for e in ranked if isinstance(e[1], Snoozed)]:
            await _snooze(runner, worker, snoozed, report)
        if released := [e for e in ranked if isinstance(e[1], Released)]:
            await _release(runner, worker, released, report)
    return report


def _by_id(ending: Ending) -> UUID:
    return ending[0].id


def _fences(endings: Sequence[Ending]) -> tuple[list[UUID], list[int]]:
    return [claim.id for claim, _ in endings], [claim.generation for claim, _ in endings]


async def _complete(runner: Runner, worker: str, endings: Sequence[Ending], repeated: bool, report: Report) -> None:
    ids, generations = _fences(endings)
    results = _unless_empty(outcome.result if isinstance(outcome, Completed) else None for _, outcome in endings)
    reasons = _unless_empty(outcome.last_error() if isinstance(outcome, Abandoned) else None for _, outcome in endings)
    probe("complete.before")
    rows = await runner.run("inbox", "complete", ids, generations, results, reasons, worker)
    probe("complete.after")
    completed, late, done = rows[0]
    report.late += late
    written = endings
    if completed < len(endings):
        if repeated:
            done += [row[0] for row in await runner.run("inbox", "confirm", ids, generations, worker)]
        there = set(done)
        written = [ending for ending in endings if ending[0].id in there]
        _note_lost(endings, done, report)
    abandoned = sum(1 for _, outcome in written if isinstance(outcome, Abandoned))
    report.abandoned += abandoned
    report.completed += len(written) - abandoned


def _unless_empty(values: Iterable[str | None]) -> list[str | None]:
    """The values, or none at all when all are null: the statement fills up what is missing, and most jobs have none."""
    listed = list(values)
    return listed if any(value is not None for value in listed) else []


async def _fail(runner: Runner, worker: str, endings: Sequence[Ending], crashed: bool, report: Report) -> None:
    ids, generations = _fences(endings)
    failures = [outcome for _, outcome in endings if isinstance(outcome, Failed)]
    probe("fail.before")
    rows = await runner.run(
        "inbox", "fail", ids, generations, [f.last_error() for f in failures], [f.record() for f in failures], worker,
        crashed,
    )  # fmt: skip
    probe("fail.after")
    dead = {row[0] for row in rows if row[1] == "dead_letter"}
    cancelled = sum(1 for row in rows if row[1] == "failed")
    report.dead += len(dead)
    report.abandoned += cancelled
    report.retried += len(rows) - len(dead) - cancelled
    for (claim, _), failed in zip(endings, failures, strict=True):
        if claim.id in dead:
            report.buried.append((claim, failed.last_error()))
    _note_lost(endings, [row[0] for row in rows], report)


async def _snooze(runner: Runner, worker: str, endings: Sequence[Ending], report: Report) -> None:
    ids, generations = _fences(endings)
    delays = [outcome.seconds for _, outcome in endings if isinstance(outcome, Snoozed)]
    rows = await runner.run("inbox", "snooze", ids, generations, delays, worker)
    report.snoozed += len(rows)
    _note_lost(endings, [row[0] for row in rows], report)


async def _release(runner: Runner, worker: str, endings: Sequence[Ending], report: Report) -> None:
    """Hand back, and once more what was locked at that moment: by a renewal, most likely, which is over soon."""
    left = list(endings)
    for _ in range(RELEASE_TRIES):
        ids, generations = _fences(left)
        probe("release.before")
        released = {row[0] for row in await runner.run("inbox", "release", ids, generations, worker)}
        report.released += len(released)
        if len(released) == len(left):
            return
        left = [ending for ending in left if ending[0].id not in released]
        held = {row[0] for row in await runner.run("inbox", "held", *_fences(left), worker)}
        left = [ending for ending in left if ending[0].id in held]
        if not left:
            return
        await asyncio.sleep(RELEASE_AGAIN)
    _complain(len(left))


async def release_all(runner: Runner, worker: str, started: Sequence[UUID] = ()) -> int:
    """Hand back whatever this worker holds, but for what it has started; once more what was locked at that moment."""
    count = 0
    for _ in range(RELEASE_TRIES):
        rows = await runner.run("inbox", "release_worker", worker, started)
        released = sum(1 for row in rows if row[1])
        count += released
        if released == len(rows):
            return count
        await asyncio.sleep(RELEASE_AGAIN)
    _complain(len(rows) - released)
    return count


def _complain(left: int) -> None:
    log.warning("%s rows could not be handed back, since somebody locks them; their leases run out", left)


def _note_lost(endings: Sequence[Ending], written: Iterable[UUID], report: Report) -> None:
    there = set(written)
    report.lost.extend(claim for claim, _ in endings if claim.id not in there)
