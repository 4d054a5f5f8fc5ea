"""Write endings in batches: one statement per kind of outcome, each under the holds of its rows.

A row that a statement does not return was lost, unless the answer to an earlier try of the same statement was lost.
Then the rows that have ended under this very hold are looked up first. A completed job of a task with `keep=None` has
no row to look up. But if it is gone, it has completed: every other ending leaves a row, and so does a job that waits or
runs again. While its lease is renewed, no other worker can complete it. If one did, the job has completed all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, assert_never
from uuid import UUID

from ..db.runner import Runner
from ..model.job import Claim, Hold, Holding
from ..model.keep import NOTHING, THE_KEY, Keep, as_installed
from ..model.outcome import DONE, AttemptFailed, Completed, Ended, Final, HandedBack, Lost, Outcome, Snoozed
from ..model.report import Report
from ..probes import probe

log = logging.getLogger("holdfast.worker")

TRIES, AGAIN = 100, 0.01

H = TypeVar("H", bound=Holding)
V = TypeVar("V")
Ending = tuple[H, Outcome]


async def write(
    runner: Runner, endings: Sequence[Ending[H]], repeated: bool = False, keep: Keep[H] = as_installed
) -> Report[H]:
    """Write the endings of one worker. `repeated`: an earlier try was sent, and no answer came. `keep`: what is kept of
    completed jobs."""
    report: Report[H] = Report()
    ordered = sorted(endings, key=_by_id)
    if ordered and keep is as_installed and _all_done([outcome for _, outcome in ordered]):
        await _end(runner, ordered, repeated, keep, report)
        return report
    dropped: list[H] = []
    ended: list[Ending[H]] = []
    expired: list[H] = []
    failed: list[tuple[H, AttemptFailed]] = []
    snoozed: list[tuple[H, Snoozed]] = []
    handed_back: list[H] = []
    for held, outcome in ordered:
        match outcome:
            case Completed() if keep(held) == NOTHING:
                dropped.append(held)
            case Ended(status=Final.EXPIRED):
                expired.append(held)
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
    if dropped:
        await _drop(runner, dropped, repeated, report)
    if ended:
        await _end(runner, ended, repeated, keep, report)
    if expired:
        await _expire(runner, expired, repeated, report)
    if failed:
        await _fail(runner, failed, report)
    if snoozed:
        await _snooze(runner, snoozed, report)
    if handed_back:
        await _hand_back(runner, handed_back, report)
    return report


def _all_done(outcomes: list[Outcome]) -> bool:
    """Is this the usual batch: completed jobs without results?"""
    return outcomes.count(DONE) == len(outcomes)


def _by_id(ending: Ending[H]) -> UUID:
    return ending[0].id


def _holds(held: Sequence[H]) -> tuple[list[UUID], list[int]]:
    """Ids and generations, as most statements take them."""
    return [row.id for row in held], [row.generation for row in held]


async def _drop(runner: Runner, held: Sequence[H], repeated: bool, report: Report[H]) -> None:
    """Complete jobs that leave no row."""
    ids, generations = _holds(held)
    probe("complete.before")
    rows = await runner.run("inbox", "drop", ids, generations, held[0].worker)
    probe("complete.after")
    completed, late, done = rows[0]
    report.late += late
    if completed < len(held):
        if repeated:
            done += await _gone(runner, ids)
        _note_lost(held, done, report)
        completed = len(set(done))
    report.completed += completed


async def names(runner: Runner, ids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    """The queues and kinds of these rows."""
    if not ids:
        return {}
    return {id: (queue, kind or "") for id, queue, kind in await runner.run("inbox", "names", ids)}


async def _gone(runner: Runner, ids: Sequence[UUID]) -> list[UUID]:
    """Which of these jobs have completed and left no row: every other ending leaves one, as does a job that goes on."""
    return [row[0] for row in await runner.run("inbox", "gone", ids)]


async def _end(runner: Runner, endings: Sequence[Ending[H]], repeated: bool, keep: Keep[H], report: Report[H]) -> None:
    worker = endings[0][0].worker
    ids, generations = _holds([held for held, _ in endings])
    outcomes = [outcome for _, outcome in endings]
    if _all_done(outcomes):
        outcomes = []
    results = _unless_empty(outcome.result if isinstance(outcome, Completed) else None for outcome in outcomes)
    statuses = _unless_empty(outcome.status.value if isinstance(outcome, Ended) else None for outcome in outcomes)
    reasons = _unless_empty(outcome.last_error() if isinstance(outcome, Ended) else None for outcome in outcomes)
    # What did not complete is always kept.
    keeps = _unless_empty(
        keep(held) if isinstance(outcome, Completed) else None
        for held, outcome in (endings if keep is not as_installed else ())
    )
    probe("complete.before")
    rows = await runner.run("inbox", "complete", ids, generations, results, statuses, reasons, worker, keeps)
    probe("complete.after")
    completed, late, done = rows[0]
    report.late += late
    written = endings
    if completed < len(endings):
        if repeated:
            done += [row[0] for row in await runner.run("inbox", "confirm", ids, generations, worker)]
            if unkept := [id for id, number in zip(ids, keeps, strict=False) if number == THE_KEY]:
                done += await _gone(runner, unkept)
        there = set(done)
        written = [ending for ending in endings if ending[0].id in there]
        _note_lost((held for held, _ in endings), done, report)
    decided = [outcome.status for _, outcome in written if isinstance(outcome, Ended)]
    report.completed += len(written) - len(decided)
    report.cancelled += decided.count(Final.CANCELLED)
    report.failed += decided.count(Final.FAILED)


async def _expire(runner: Runner, held: Sequence[H], repeated: bool, report: Report[H]) -> None:
    ids, generations = _holds(held)
    worker = held[0].worker
    done = {row[0] for row in await runner.run("inbox", "expire", ids, generations, worker)}
    if len(done) < len(held) and repeated:
        done |= {row[0] for row in await runner.run("inbox", "confirm", ids, generations, worker)}
    report.expired.extend(row for row in held if row.id in done)
    _note_lost(held, done, report)


def _unless_empty(values: Iterable[V | None]) -> list[V | None]:
    """The values, or an empty list if all are null: the statement fills in nulls, and most jobs have no value."""
    listed = list(values)
    return listed if any(value is not None for value in listed) else []


async def _fail(runner: Runner, endings: Sequence[tuple[H, AttemptFailed]], report: Report[H]) -> None:
    ids, generations = _holds([held for held, _ in endings])
    failures = [failed for _, failed in endings]
    errors = {held.id: failed.last_error() for held, failed in endings}
    probe("fail.before")
    rows = await runner.run(
        "inbox", "fail", ids, generations, list(errors.values()), _records(endings),
        [each.delay for each in failures], [each.give_up for each in failures], [each.crashed for each in failures],
        endings[0][0].worker,
    )  # fmt: skip
    probe("fail.after")
    _note_failed([held for held, _ in endings], {id: (status, errors[id]) for id, status in rows}, report)


def _note_failed(held: Sequence[H], ends: Mapping[UUID, tuple[str, str]], report: Report[H]) -> None:
    """What `fail_attempts` has made of these. `ends` has the status and error of each; what is not there was lost."""
    for row in held:
        match ends.get(row.id):
            case None:
                report.lost.append(row)
            case "dead_letter", error:
                report.dead.append((row, error))
            case "failed", _:  # it was cancelled while it ran
                report.cancelled += 1
                report.stopped.append(row)
            case "pending", _:
                report.retried += 1
            case other:
                raise AssertionError(other)


def _records(endings: Sequence[tuple[H, AttemptFailed]]) -> list[str]:
    """With their error groups, if their kinds are known: not to the supervisor of a process that died."""
    return [failed.record(kind=held.kind if isinstance(held, Claim) else None) for held, failed in endings]


async def _snooze(runner: Runner, endings: Sequence[tuple[H, Snoozed]], report: Report[H]) -> None:
    ids, generations = _holds([held for held, _ in endings])
    delays = [snoozed.seconds for _, snoozed in endings]
    counted = [snoozed.counted for _, snoozed in endings]
    rows = await runner.run("inbox", "snooze", ids, generations, delays, counted, endings[0][0].worker)
    report.snoozed += len(rows)
    if len(rows) == len(endings):
        return
    there = {row[0] for row in rows}
    left = [(held, snoozed) for held, snoozed in endings if held.id not in there]
    report.lost += [held for held, snoozed in left if not snoozed.counted]
    if too_often := [held for held, snoozed in left if snoozed.counted]:
        await _fail_snoozed(runner, too_often, report)


async def _fail_snoozed(runner: Runner, held: Sequence[H], report: Report[H]) -> None:
    """End what could not be snoozed once more, if it was not lost."""
    rows = await runner.run("inbox", "fail_snoozed", *_holds(held), held[0].worker)
    _note_failed(held, {id: (status, error) for id, status, error in rows}, report)


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


async def claimed_by(runner: Runner, worker: str) -> set[Hold]:
    """Return all rows that this worker has claimed, as the server knows them."""
    return {Hold(worker, id, generation) for id, generation in await runner.run("inbox", "claimed_by", worker)}


async def hand_back(runner: Runner, held: Iterable[Hold]) -> int:
    """Hand back these rows of one worker, none of which has started; retry those that were locked at that moment."""
    report: Report[Hold] = Report()
    if rows := sorted(held):
        await _hand_back(runner, rows, report)
    return report.handed_back


async def hand_back_all(runner: Runner, worker: str) -> int:
    """Hand back everything that this worker holds: it is dead. Retry rows that were locked at that moment."""
    count = 0
    for _ in range(TRIES):
        rows = await runner.run("inbox", "hand_back_worker", worker)
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
