"""What operators do with queues."""

from __future__ import annotations

from ..db.runner import Runner


async def pause(runner: Runner, queue: str) -> None:
    """Claim nothing more from it; what runs, finishes."""
    await runner.run("queues", "pause", queue)


async def resume(runner: Runner, queue: str) -> None:
    """Claim from it again."""
    await runner.run("queues", "resume", queue)


async def set_modes(runner: Runner, queue: str, ordered: bool | None, skips: bool | None, owned: bool | None) -> None:
    """Say how the jobs run that are enqueued from now on; None: as before."""
    await runner.run("queues", "set", queue, ordered, skips, owned)
