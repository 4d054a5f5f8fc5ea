"""What operators can do with jobs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..db.runner import Runner
from ..errors import NotFound


async def cancel(runner: Runner, id: UUID, reason: str) -> str:
    """Cancel a job. 'cancelled': it has ended; 'processing': its handler is notified; 'dead_letter': it stays one."""
    rows = await runner.run("inbox", "cancel", id, reason)
    if not rows:
        raise NotFound(f"There is no live job {id}; it may have ended already")
    return str(rows[0][0])


async def revive(runner: Runner, ids: Sequence[UUID]) -> list[UUID]:
    """Make dead letters pending again with a full set of attempts; return the ids of those revived."""
    return [row[0] for row in await runner.run("inbox", "revive", sorted(ids))]
