"""Write steps as they are done, and load them when the instance is claimed again.

A record is written under the hold of its instance, which is locked for it: a worker that has lost its lease writes
nothing. A row that is locked at that moment, by a renewal or by an open transaction that cancels it, is retried.
Writing the same record twice has one effect, so a record whose answer was lost is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from operator import attrgetter
from time import perf_counter
from typing import TypeVar
from uuid import UUID

import msgspec

from ..db.runner import Runner
from ..model.flow import GOES_ON, History, Standing, StepRecord
from ..model.job import Holding
from ..probes import probe

H = TypeVar("H", bound=Holding)
V = TypeVar("V")
AGAIN, LONGEST = 0.005, 0.1
"""Seconds until a locked row is tried again: twice as long each time, within these."""
MOMENT = 0.05
"""Seconds. What ended so short a time before it is written ended now; said of every step, it would cost more than it is
worth."""

_decode = msgspec.json.Decoder(History).decode
_encode = msgspec.json.Encoder().encode
_ordinal = attrgetter("ordinal")


class Locked(Enum):
    """In place of a standing: the row is held, and locked now, by a renewal or by an open transaction."""

    NOW = auto()


async def record_with_writes(
    runner: Runner, wait: Callable[[], Awaitable[object]], held: Holding, records: Sequence[StepRecord]
) -> Standing | None:
    """As `record`, of one instance, in the transaction in which its step has written. None: its lease was lost.

    If the row is locked, `wait` waits for it in the server: whoever has locked it may wait for what the step has
    written, and only the server sees both.
    """
    (standing,) = await record_once(runner, [(held, records)])
    while isinstance(standing, Locked):
        await wait()
        (standing,) = await record_once(runner, [(held, records)])
    return standing


async def record(runner: Runner, batch: Sequence[tuple[H, Sequence[StepRecord]]]) -> dict[UUID, Standing]:
    """Write steps; return where their instances stand. An instance that is missing in the answer has lost its lease.

    Without steps, this only tells where an instance stands. All holds are of one worker.
    """
    found: dict[UUID, Standing] = {}
    left, pause = batch, AGAIN
    while left:
        locked = []
        for one, standing in zip(left, await record_once(runner, left), strict=True):
            if standing is Locked.NOW:
                locked.append(one)
            elif standing is not None:
                found[one[0].id] = standing
        left = locked
        if left:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST)
    return found


async def record_once(
    runner: Runner, batch: Sequence[tuple[H, Sequence[StepRecord]]]
) -> list[Standing | Locked | None]:
    """As `record`, in the order of the batch, and without waiting for rows that are locked now."""
    probe("record.before")
    rows = await runner.run("workflow", "record", batch[0][0].worker, *as_records(batch, hold=True))
    probe("record.after")
    if not any(rows[0]):  # as nearly always
        return [GOES_ON] * len(batch)
    lost, cancelled, paused = (frozenset(ids or ()) for ids in rows[0])
    missing = [held for held, _ in batch if held.id in lost]
    still = await held_of(runner, missing) if missing else set()
    return [
        Standing(held.id in cancelled, held.id in paused) if held.id not in lost
        else Locked.NOW if held.id in still
        else None
        for held, _ in batch
    ]  # fmt: skip


async def held_of(runner: Runner, held: Sequence[Holding]) -> set[UUID]:
    """Which of these rows are still held; the others are lost."""
    ids, generations = [row.id for row in held], [row.generation for row in held]
    return {row[0] for row in await runner.run("inbox", "held", ids, generations, held[0].worker)}


async def load(runner: Runner, ids: Sequence[UUID]) -> dict[UUID, History]:
    """Return what is stored of these instances, each as of one moment; steps in the order in which they began."""
    found: dict[UUID, History] = {}
    for id, text in await runner.run("workflow", "load", ids):
        history = found[id] = _decode(text)
        history.steps.sort(key=_ordinal)
        history.signals.sort(key=attrgetter("n"))
    return found


def as_records(batch: Iterable[tuple[H, Sequence[StepRecord]]], hold: bool = False) -> tuple[str | None, bool, bool]:
    """Steps as record.sql takes them, as JSON: None without any. Does one start a child; does one take a signal?

    `hold`: with an element for an instance without steps.
    """
    lines: list[bytes] = []
    starts = takes = False
    now = perf_counter()
    for held, records in batch:
        begin = b'{"id":"%b","generation":%d' % (str(held.id).encode(), held.generation)
        if len(records) > 1:
            records = merged(records)
        elif not records and hold:
            lines.append(begin + b"}")
        for step in records:
            lines.append(begin + b"," + _encoded(step, now)[1:])
            starts = starts or step.child is not None
            takes = takes or step.signal is not None
    return (b"[" + b",".join(lines) + b"]").decode() if lines else None, starts, takes


def _encoded(step: StepRecord, now: float) -> bytes:
    """The step as JSON, in which it says how long ago it ended: the database has a clock of its own."""
    ended = step.ended
    if not ended:
        return _encode(step)
    step.ended = now - ended if now - ended > MOMENT else 0.0
    try:
        return _encode(step)
    finally:
        step.ended = ended


def merged(records: Sequence[StepRecord]) -> list[StepRecord]:
    """The records with one for each step: the last one, with what only an earlier one says."""
    last: dict[tuple[str, int], StepRecord] = {}
    for step in records:
        before = last.get((step.name, step.n))
        if before is not None:
            step = msgspec.structs.replace(
                step,
                ordinal=before.ordinal,
                error=step.error or before.error,
                digest=before.digest if step.digest is None else step.digest,
                delay=before.delay if step.delay is None else step.delay,
                at=step.at or before.at,
                child=step.child or before.child,
                signal=before.signal if step.signal is None else step.signal,
            )
        last[step.name, step.n] = step
    return list(last.values())


def unless_empty(values: Iterable[V | None]) -> list[V | None]:
    """The values, or an empty list if all are null: the statement fills in nulls."""
    listed = list(values)
    return listed if any(value is not None for value in listed) else []


def as_archived(records: Sequence[StepRecord]) -> str | None:
    """Steps as they are kept with an instance that ends: JSON objects with commas between them, as in kept_step.sql."""
    if not records:
        return None
    now = perf_counter()
    return ",".join([_archived(step, now) for step in (merged(records) if len(records) > 1 else records)])


def _archived(step: StepRecord, now: float) -> str:
    kept = (
        f'{{"name":{_encode(step.name).decode()},"n":{step.n},"ordinal":{step.ordinal},"kind":"{step.kind}",'
        f'"status":"{step.status}","attempts":{step.attempts},"took":{step.took!r},"result":{step.result or "null"}'
    )
    if step.ended:
        kept += ',"ago":0' if now - step.ended < MOMENT else f',"ago":{now - step.ended:.3f}'
    if step.error is not None:
        kept += f',"errors":[{step.error}]'
    if step.digest is not None:
        kept += f',"digest":{step.digest}'
    if step.signal is not None:
        kept += f',"signal":{step.signal}'
    return kept + "}"
