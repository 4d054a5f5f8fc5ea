"""What callers and operators can do with instances. An instance is named by the id given at its start, or its job's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from ..db.acting import actor, named
from ..db.runner import Runner
from ..errors import NotFound


async def signal(
    runner: Runner, instance: str | UUID, name: str, payload: str = "null", signal_id: str | None = None
) -> str:
    """Send a signal; `payload` is JSON text. Returns woken, kept, known, ended or unknown."""
    return await _ask(runner, "signal", str(instance), name, payload, signal_id, named())


async def pause(runner: Runner, instance: str | UUID) -> str:
    """Pause an instance. Returns paused, ended or unknown."""
    return await _ask(runner, "pause", str(instance), actor())


async def resume(runner: Runner, instance: str | UUID) -> str:
    """Let a paused instance go on, or retry a dead letter. Returns resumed, not paused, ended or unknown."""
    return await _ask(runner, "resume", str(instance), actor())


async def restart(runner: Runner, instance: str | UUID, step: str, n: int = 0) -> int:
    """Run an instance again from a step on; return how many steps are forgotten."""
    ((dropped,),) = await runner.run("workflow", "restart", str(instance), step, n, actor())
    return int(dropped)


async def find(runner: Runner, instance: str | UUID) -> UUID:
    """Return the id of the instance's job, live or ended."""
    ((id,),) = await runner.run("workflow", "find", str(instance))
    if id is None:
        raise NotFound(f"There is no workflow instance {str(instance)!r}; it may have ended long ago")
    return UUID(str(id))


async def show(runner: Runner, instance: str | UUID) -> asyncpg.Record:
    """Return one instance: where it stands, its steps and its signals. Live or ended."""
    rows = await runner.run("workflow", "show", str(await find(runner, instance)))
    if not rows:
        raise NotFound(
            f"No workflow instance {str(instance)!r} is known. If you have just started it, start a worker with its "
            "code: instances are listed once a worker has registered the workflow. Or it is not a workflow: see "
            "holdfast job show"
        )
    return rows[0]


async def list(
    runner: Runner, workflow: str | None = None, states: Sequence[str] | None = None, limit: int = 100
) -> Sequence[asyncpg.Record]:
    """Return live instances, those that are in their state for the longest first."""
    return await runner.run("workflow", "list", workflow, states, limit)


async def _ask(runner: Runner, verb: str, *arguments: Any) -> str:
    ((became,),) = await runner.run("workflow", verb, *arguments)
    return str(became)
