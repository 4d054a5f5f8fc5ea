"""The sessions in which handlers write, by name: who takes a row over ends its last owner's session first.

An owner that is stopped, or cut off, keeps its locks for as long as its session lives: on the business rows that it
changed and, once it has completed, on its own. The name, `holdfast job <id> <generation>`, is the session's
`application_name`, for one transaction. Nothing is stored, and operators see it in `pg_stat_activity`.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from .ending import Runner


def name(id: UUID, generation: int) -> str:
    """As the statements write it."""
    return f"holdfast job {id} {generation}"


async def end(runner: Runner, attempts: Sequence[tuple[UUID, int]]) -> None:
    """These attempts, by id and generation, have nobody any more who could go on with them."""
    if attempts:
        await runner.run("inbox", "end_sessions", [id for id, _ in attempts], [number for _, number in attempts])
