"""The sessions in which handlers write, by name: before others take a row, its last session is ended.

A worker that is stopped, or cut off, keeps its locks as long as its session lives: on the rows that its handler
changed and, once it has completed the job, on the job's row. The name, `holdfast job <id> <generation>`, is the
session's `application_name`, for one transaction. Nothing is stored, and operators see it in `pg_stat_activity`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..db.runner import Runner
from ..model.job import Hold, Holding


def name(held: Holding) -> str:
    """The name, as the SQL statements write it."""
    return f"holdfast job {held.id} {held.generation}"


async def end(runner: Runner, holds: Sequence[Hold]) -> None:
    """End the sessions of these attempts, whose process is gone."""
    if holds:
        await runner.run("inbox", "end_sessions", [hold.id for hold in holds], [hold.generation for hold in holds])
