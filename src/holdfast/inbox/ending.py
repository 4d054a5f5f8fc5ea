"""Write endings in batches: one statement per kind of outcome, each under the holds of its rows.

A row that a statement does not return was lost, unless the answer to an earlier try of the same statement was lost.
Then the rows that have ended under this very hold are looked up first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar, assert_never
from uuid import UUID

from ..db.runner import Runner
from ..model.job import Holding
from ..model.outcome import AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Outcome, Snoozed
from ..model.report import Report
from ..probes import probe

log = logging.getLogger("holdfast.worker")

TRIES, AGAIN = 100, 0.01

H = TypeVar("H", bound=Holding)
Ending = tuple[H, Outcome]


async def write(runner: Runner, endings: Sequence[Ending[H]], repeated: bool = False) -> Report[H]:
    """Write the endings of one worker. `repeated`: an earlier try was sent, and no answer came."""
    report: Report[H] = Report()
    ended: list[Ending[H]] = []
    failed: list[tuple[H, AttemptFailed]] = []
    snoozed: list[tuple[H, Snoozed]] = []
    handed_back: list[H] = []
    for held, outcome in sorted(endings, key=_by_id):
        match outcome:
            case Completed() | Ended():
                ended.append((held, outcome))
            case AttemptFailed():
                failed.append((held, outcome))
            case Snoozed():
                snoozed.append((held, outcome))
            case HandedBack():
                handed_back.append(held)
            case Lost():
                report.lost.append(held)
            case _:
                assert_never(outcome)
    if ended:
        await _end(runner, ended, repeated, report)
    if failed:
        await _fail(runner, failed, report)
    if snoozed:
        await _snooze(runner, snoozed, report)
    if handed_back:
        await _hand_back(runner, handed_back, report)
    return report


def _by_id(ending: Ending[H]) -> UUID:
    return ending[0].id


def _holds(held: Iterable[H]) -> tuple[list[UUID], list[int]]:
    """Ids and generations, as most statements take them."""
    rows = list(held)
    return [row.id for row in rows], [row.generation for row in rows]


async def _end(runner: Runner, endings: Sequence[Ending[H]], repeated: bool, report: Report[H]) -> None:
    worker = endings[0][0].worker
    ids, generations = _holds(held for held, _ in endings)
    results = _unless_empty(outcome.result if isinstance(outcome, Completed) else None for _, outcome in endings)
    statuses = _unless_empty(outcome.status.value if isinstance(outcome, Ended) else None for _, outcome in endings)
    reasons = _unless_empty(outcome.last_error() if isinstance(outcome, Ended) else None for _, outcome in endings)
    probe("complete.before")
    rows = await runner.run("inbox", "complete", ids, generations, results, statuses, reasons, worker)
    probe("complete.after")
    completed, late, done = rows[0]
    report.late += late
    written = endings
    if completed < len(endings):
        if repeated:
            done += [row[0] for row in await runner.run("inbox", "confirm", ids, generations, worker)]
        there = set(done)
        written = [ending for ending in endings if ending[0].id in there]
        _note_lost((held for held, _ in endings), done, report)
    decided = [outcome.status for _, outcome in written if isinstance(outcome, Ended)]
    report.completed += len(written) - len(decided)
    report.cancelled += decided.count(Final.CANCELLED)
    report.failed += decided.count(Final.FAILED)


def _unless_empty(values: Iterable[str | None]) -> list[str | None]:
    """The values, or an empty list if all are null: the statement fills in nulls, and most jobs have no value."""
    listed = list(values)
    return listed if any(value is not None for value in listed) else []


async def _fail(runner: Runner, endings: Sequence[tuple[H, AttemptFailed]], report: Report[H]) -> None:
    ids, generations = _holds(held for held, _ in endings)
    failures = [failed for _, failed in endings]
    probe("fail.before")
    rows = await runner.run(
        "inbox", "fail", ids, generations, [each.last_error() for each in failures],
        [each.record() for each in failures], [each.delay for each in failures], [each.give_up for each in failures],
        [each.crashed for each in failures], endings[0][0].worker,
    )  # fmt: skip
    probe("fail.after")
    statuses = {row[0]: row[1] for row in rows}
    for held, failed in endings:
        match statuses.get(held.id):
            case "dead_letter":
                report.dead.append((held, failed.last_error()))
            case "failed":  # it was cancelled while it ran
                report.cancelled += 1
            case "pending":
                report.retried += 1
    _note_lost((held for held, _ in endings), statuses, report)


async def _snooze(runner: Runner, endings: Sequence[tuple[H, Snoozed]], report: Report[H]) -> None:
    ids, generations = _holds(held for held, _ in endings)
    delays = [snoozed.seconds for _, snoozed in endings]
    counted = [snoozed.counted for _, snoozed in endings]
    rows = await runner.run("inbox", "snooze", ids, generations, delays, counted, endings[0][0].worker)
    statuses = {row[0]: row[1] for row in rows}
    for held, _ in endings:
        match statuses.get(held.id):
            case "dead_letter":
                report.dead.append((held, "SnoozeLimit: the handler has snoozed this job as often as it may"))
            case "pending":
                report.snoozed += 1
    _note_lost((held for held, _ in endings), statuses, report)


async def _hand_back(runner: Runner, held: Sequence[H], report: Report[H]) -> None:
    """Hand back; retry rows that were locked at that moment, most likely by a renewal, which is over soon."""
    worker = held[0].worker
    left = list(held)
    for _ in range(TRIES):
        probe("hand_back.before")
        back = {row[0] for row in await runner.run("inbox", "hand_back", *_holds(left), worker)}
        report.handed_back += len(back)
        left = [row for row in left if row.id not in back]
        if not left:
            return
        still = {row[0] for row in await runner.run("inbox", "held", *_holds(left), worker)}
        left = [row for row in left if row.id in still]
        if not left:
            return
        await asyncio.sleep(AGAIN)
    _complain(len(left))


async def hand_back_all(runner: Runner, worker: str, started: Sequence[UUID] = ()) -> int:
    """Hand back what this worker holds and has not started; retry rows that were locked at that moment."""
    count = 0
    for _ in range(TRIES):
        rows = await runner.run("inbox", "hand_back_worker", worker, started)
        back = sum(1 for row in rows if row[1])
        count += back
        if back == len(rows):
            return count
        await asyncio.sleep(AGAIN)
    _complain(len(rows) - back)
    return count


def _complain(left: int) -> None:
    log.warning("%s rows could not be handed back, because they are locked; their leases will expire", left)


def _note_lost(held: Iterable[H], written: Iterable[UUID], report: Report[H]) -> None:
    there = set(written)
    report.lost.extend(row for row in held if row.id not in there)
