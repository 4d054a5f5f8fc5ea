"""Operators' calls for queues."""

from __future__ import annotations

from ..db.acting import actor
from ..db.runner import Runner


async def pause(runner: Runner, queue: str) -> None:
    """Stop claiming from the queue; running jobs finish."""
    await runner.run("queues", "pause", queue, actor())


async def resume(runner: Runner, queue: str) -> bool:
    """Claim from the queue again. Returns whether it was paused."""
    rows = await runner.run("queues", "resume", queue, actor())
    return bool(rows and rows[0]["paused"])


async def set_modes(runner: Runner, queue: str, ordered: bool | None, skips: bool | None, owned: bool | None) -> None:
    """Set how jobs that are enqueued from now on will run; None leaves a mode unchanged."""
    await runner.run("queues", "set", queue, ordered, skips, owned, actor())
