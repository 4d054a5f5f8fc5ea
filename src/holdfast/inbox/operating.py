"""What operators do with jobs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..db.runner import Runner
from ..errors import NotFound


async def cancel(runner: Runner, id: UUID, reason: str) -> str:
    """'cancelled' when it ended at once, 'processing' when its handler is being told, 'dead_letter' when it is one."""
    rows = await runner.run("inbox", "cancel", id, reason)
    if not rows:
        raise NotFound(f"There is no live job {id}; it may have ended already")
    return str(rows[0][0])


async def revive(runner: Runner, ids: Sequence[UUID]) -> list[UUID]:
    """Make dead letters pending again with a full set of attempts; the ids that were revived."""
    return [row[0] for row in await runner.run("inbox", "revive", sorted(ids))]
