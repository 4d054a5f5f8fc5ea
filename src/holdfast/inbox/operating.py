"""What operators can do with jobs. Many jobs are taken in batches, each a transaction, in the order of their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

import asyncpg

from ..db.acting import actor, named
from ..db.runner import Runner
from ..errors import InvalidInput, NotFound

BATCH = 1000
TRIES = 10
"""How often a batch is revived while producers add jobs of its unique keys. Ten in a row do not meet by chance."""


async def cancel(runner: Runner, id: UUID, reason: str) -> str:
    """Cancel a job. 'cancelled': it has ended; 'processing': its handler is notified. Raises for a dead letter."""
    rows = await runner.run("inbox", "cancel", id, reason, named())
    if not rows:
        raise NotFound(f"There is no live job {id}; it may have ended already")
    status = str(rows[0][0])
    if status == "dead_letter":
        raise InvalidInput(
            "id",
            f"job {id} is a dead letter and cannot be cancelled: no attempt of it runs or will run. To remove it: "
            f"hf.discard([…]), or holdfast dead discard {id}",
        )
    return status


async def cancel_many(runner: Runner, ids: Iterable[UUID], reason: str) -> dict[UUID, str]:
    """Cancel jobs; return the status of each that was cancelled, as `cancel` does. Leaves dead letters alone."""
    found: dict[UUID, str] = {}
    for batch in _batches(ids):
        found |= {row["id"]: row["status"] for row in await runner.run("inbox", "cancel_many", batch, reason, named())}
    return {id: status for id, status in found.items() if status != "dead_letter"}


async def revive(runner: Runner, ids: Iterable[UUID]) -> list[UUID]:
    """Make dead letters pending again with a full set of attempts; return the ids of those revived."""
    revived: list[UUID] = []
    for batch in _batches(ids):
        for tries_left in reversed(range(TRIES)):
            try:
                revived += [row[0] for row in await runner.run("inbox", "revive", batch, actor())]
                break
            except asyncpg.UniqueViolationError:  # a producer was faster; the next look sees its job
                if not tries_left:
                    raise
    return revived


async def discard(runner: Runner, ids: Iterable[UUID]) -> list[UUID]:
    """Move dead letters to the archive as discarded; return the ids of those discarded."""
    return await _each(runner, "discard", ids)


async def run_now(runner: Runner, ids: Iterable[UUID]) -> list[UUID]:
    """Make pending jobs due that wait for their time or their retry; return their ids."""
    return await _each(runner, "run_now", ids)


async def _each(runner: Runner, verb: str, ids: Iterable[UUID]) -> list[UUID]:
    return [row[0] for batch in _batches(ids) for row in await runner.run("inbox", verb, batch, actor())]


def _batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), BATCH):
        yield ordered[start : start + BATCH]
