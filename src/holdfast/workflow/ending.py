"""Write how runs of instances end: parked, or over; and the ends of jobs that instances wait for.

Each statement is written under the holds of its rows. A row that it does not return was lost, unless the answer to an
earlier try was lost: then it is looked up first. Nothing here waits for a transaction of an application. What cannot be
written because of one comes back in `Report.again`, to be written with a later batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from ..db.runner import Runner
from ..model.flow import PARENT, FlowEnd, Parked
from ..model.job import Holding
from ..model.keep import NOTHING, THE_KEY, Keep, as_installed
from ..model.outcome import DONE, Completed, Ended, Final
from ..model.report import Report
from ..probes import probe
from .recording import AGAIN, MOMENT, as_archived, as_records, held_of, unless_empty

H = TypeVar("H", bound=Holding)
FlowEnding = tuple[H, Parked | FlowEnd]
ChildEnding = tuple[H, Completed | Ended | FlowEnd]
E = TypeVar("E", bound=tuple[Any, Any])

BATCH = 200
"""Instances that are parked in one statement: each that waits for the first time takes an advisory lock."""
TRIES = 20
"""How often a locked row is tried before it is left to a later batch."""


async def write(
    runner: Runner, endings: Sequence[FlowEnding[H]], repeated: bool = False, keep: Keep[H] = as_installed
) -> Report[H]:
    """Write how runs of one worker's instances ended. `repeated`: an earlier try was sent, and no answer came."""
    report: Report[H] = Report()
    parked: list[tuple[H, Parked]] = []
    over: list[tuple[H, FlowEnd]] = []
    children: list[ChildEnding[H]] = []
    for held, outcome in sorted(endings, key=lambda ending: ending[0].id):
        if isinstance(outcome, Parked):
            parked.append((held, outcome))
        elif PARENT in (getattr(held, "headers", None) or ""):
            children.append((held, outcome))
        else:
            over.append((held, outcome))
    for start in range(0, len(parked), BATCH):
        await _park(runner, parked[start : start + BATCH], repeated, report)
    if over:
        await _end(runner, over, repeated, keep, report)
    if children:
        await _end_children(runner, children, repeated, keep, report)
    return report


async def end_children(
    runner: Runner, endings: Sequence[ChildEnding[H]], repeated: bool = False, keep: Keep[H] = as_installed
) -> Report[H]:
    """Write the ends of jobs that carry the header PARENT, and tell their parents."""
    report: Report[H] = Report()
    if endings:
        ordered = sorted(endings, key=lambda ending: ending[0].id)
        await _end_children(runner, ordered, repeated, keep, report)
    return report


async def _park(runner: Runner, endings: Sequence[tuple[H, Parked]], repeated: bool, report: Report[H]) -> None:
    left = list(endings)
    locked: list[tuple[H, Parked]] = []
    for tries in range(TRIES):
        while left:  # the second time without those that are locked or lost
            rows = await _send_park(runner, left)
            if not any(outcome == "missing" for _, outcome in rows):
                assert len(rows) == len(left)
                report.parked += len(rows)
                break
            missing = {id for id, outcome in rows if outcome == "missing"}
            locked += [ending for ending in left if ending[0].id in missing]
            left = [ending for ending in left if ending[0].id not in missing]
        if not locked:
            return
        held = await held_of(runner, [each for each, _ in locked])
        gone = [each for each, _ in locked if each.id not in held]
        if gone:
            await _note_not_held(runner, gone, repeated, report)
        left, locked = [ending for ending in locked if ending[0].id in held], []
        if not left:
            return
        if tries < TRIES - 1:
            await asyncio.sleep(AGAIN)
    report.again += [held for held, _ in left]


async def _send_park(runner: Runner, endings: Sequence[tuple[H, Parked]]) -> list[tuple[UUID, str]]:
    parks = [_park_of(held, park) for held, park in endings]
    probe("park.before")
    rows = await runner.run(
        "workflow", "park", endings[0][0].worker, msgspec.json.encode(parks).decode(),
        *as_records((held, park.records) for held, park in endings),
    )  # fmt: skip
    probe("park.after")
    return [(id, outcome) for id, outcome in rows]


def _park_of(held: Holding, park: Parked) -> dict[str, Any]:
    """As park.sql takes it."""
    return {
        "id": str(held.id), "generation": held.generation, "mail": park.mail, "waits": park.waits, "delay": park.delay,
        "ago": _ago(park), "wake_at": park.wake_at, "left": park.left,
    }  # fmt: skip


def _ago(park: Parked) -> float:
    """How long ago its timer began. A moment less: an instance that wakes before the timer that is stored is due would
    only run, and wait again; of a record, a moment does not count either."""
    return max(perf_counter() - park.since - MOMENT, 0.0) if park.since else 0.0


async def _note_not_held(runner: Runner, held: Sequence[H], repeated: bool, report: Report[H]) -> None:
    parked: set[UUID] = set()
    if repeated:
        ids, generations = [row.id for row in held], [row.generation for row in held]
        parked = {row[0] for row in await runner.run("workflow", "parked", ids, generations)}
    report.parked += len(parked)
    report.lost += [row for row in held if row.id not in parked]


async def _end(
    runner: Runner, endings: Sequence[tuple[H, FlowEnd]], repeated: bool, keep: Keep[H], report: Report[H]
) -> None:
    worker = endings[0][0].worker
    ids, generations = [held.id for held, _ in endings], [held.generation for held, _ in endings]
    results, statuses, reasons, keeps = _how(endings, keep)
    probe("complete.before")
    rows = await runner.run(
        "workflow", "end", ids, generations, results, statuses, reasons, worker, keeps,
        unless_empty(as_archived(outcome.records) for _, outcome in endings),
        [outcome.stored for _, outcome in endings],
    )  # fmt: skip
    probe("complete.after")
    _, late, done = rows[0]
    report.late += late
    if done is not None:
        endings = await _undo_cancelled(runner, endings, set(done), repeated, report)
    await _note_ended(runner, endings, set(ids if done is None else done), repeated, keep, report)


async def _end_children(
    runner: Runner, endings: Sequence[ChildEnding[H]], repeated: bool, keep: Keep[H], report: Report[H]
) -> None:
    worker = endings[0][0].worker
    ids, generations = [held.id for held, _ in endings], [held.generation for held, _ in endings]
    results, statuses, reasons, keeps = _how(endings, keep)
    probe("complete.before")
    rows = await runner.run(
        "workflow", "end_children", worker, ids, generations, results, statuses, reasons, keeps,
        unless_empty(as_archived(outcome.records) if isinstance(outcome, FlowEnd) else None for _, outcome in endings),
        [isinstance(outcome, FlowEnd) and outcome.stored for _, outcome in endings],
    )  # fmt: skip
    probe("complete.after")
    busy = {row["id"] for row in rows if row["outcome"] == "busy"}
    done = {row["id"] for row in rows if row["outcome"] == "ended"}
    report.late += sum(row["late"] for row in rows)
    if busy and repeated:
        # The earlier try may have ended it, and its parent is busy now.
        held = await held_of(runner, [each for each, _ in endings if each.id in busy])
        busy &= held
    report.again += [held for held, _ in endings if held.id in busy]
    written = [ending for ending in endings if ending[0].id not in busy]
    if len(done) < len(written):
        written = await _undo_cancelled(runner, written, done, repeated, report)
    await _note_ended(runner, written, done, repeated, keep, report)


async def _undo_cancelled(
    runner: Runner, endings: Sequence[E], done: set[UUID], repeated: bool, report: Report[H]
) -> list[E]:
    """Let instances run again that would have completed, and were cancelled meanwhile: what they did must be undone.

    Parking does that: it writes what they have recorded, and makes a cancelled one due at once. Returns the others.
    """
    left = {held.id: (held, outcome) for held, outcome in endings if held.id not in done}
    flows = [
        (held, Parked(0, (), outcome.records))
        for held, outcome in left.values()
        if isinstance(outcome, FlowEnd) and isinstance(outcome.end, Completed)
    ]
    if not flows:
        return list(endings)
    held = await held_of(runner, [each for each, _ in flows])
    await _park(runner, [ending for ending in flows if ending[0].id in held], repeated, report)
    return [ending for ending in endings if ending[0].id not in held]


def _how(
    endings: Sequence[tuple[H, Completed | Ended | FlowEnd]], keep: Keep[H]
) -> tuple[list[str | None], list[str | None], list[str | None], list[int | None]]:
    """Results, statuses, reasons and what is kept, as the statements take them."""
    ends = [_end_of(outcome) for _, outcome in endings]
    if keep is as_installed and ends.count(DONE) == len(ends):  # as most
        return [], [], [], []
    return (
        unless_empty(end.result if isinstance(end, Completed) else None for end in ends),
        unless_empty(end.status.value if isinstance(end, Ended) else None for end in ends),
        unless_empty(end.last_error() if isinstance(end, Ended) else None for end in ends),
        unless_empty(
            keep(held) if isinstance(end, Completed) else None
            for (held, _), end in zip(endings, ends, strict=True)
            if keep is not as_installed
        ),
    )


def _end_of(outcome: Completed | Ended | FlowEnd) -> Completed | Ended:
    return outcome.end if isinstance(outcome, FlowEnd) else outcome


async def _note_ended(
    runner: Runner,
    endings: Sequence[tuple[H, Completed | Ended | FlowEnd]],
    done: set[UUID],
    repeated: bool,
    keep: Keep[H],
    report: Report[H],
) -> None:
    missing = [(held, _end_of(outcome)) for held, outcome in endings if held.id not in done]
    if not missing and not [1 for _, outcome in endings if _end_of(outcome) is not DONE]:  # as most
        report.completed += len(endings)
        return
    if missing and repeated:
        ids, generations = [held.id for held, _ in missing], [held.generation for held, _ in missing]
        confirmed = await runner.run("inbox", "confirm", ids, generations, missing[0][0].worker)
        done |= {row[0] for row in confirmed}
        # Every other ending leaves a row: see inbox/ending.py.
        unkept = [held.id for held, end in missing if isinstance(end, Completed) and keep(held) in (NOTHING, THE_KEY)]
        if unkept:
            done |= {row[0] for row in await runner.run("inbox", "gone", unkept)}
    for held, outcome in endings:
        end = _end_of(outcome)
        if held.id not in done:
            report.lost.append(held)
        elif isinstance(end, Completed):
            report.completed += 1
        elif end.status is Final.EXPIRED:
            report.expired.append(held)
        elif end.status is Final.CANCELLED:
            report.cancelled += 1
        else:
            report.failed += 1
