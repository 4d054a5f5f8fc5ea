"""The sessions in which handlers write, by name: who takes a row over ends its last owner's session first.

An owner that is stopped, or cut off, keeps its locks for as long as its session lives: on the business rows that it
changed and, once it has completed, on its own. The name, `holdfast job <id> <generation>`, is the session's
`application_name`, for one transaction. Nothing is stored, and operators see it in `pg_stat_activity`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..db.runner import Runner
from ..model.job import Hold, Holding


def name(held: Holding) -> str:
    """As the statements write it."""
    return f"holdfast job {held.id} {held.generation}"


async def end(runner: Runner, holds: Sequence[Hold]) -> None:
    """Nobody is left who could go on with these."""
    if holds:
        await runner.run("inbox", "end_sessions", [hold.id for hold in holds], [hold.generation for hold in holds])
