"""What there is to show: a few bounded questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..db.runner import Runner
from ..views import numbers
from ..views.numbers import Numbers

Row = Mapping[str, Any]
LOOKED = 200
"""Rows in processing among which those are searched that have run the longest."""
ERRORS = 50


@dataclass(frozen=True, slots=True)
class State:
    """One look."""

    at: datetime
    numbers: Numbers
    workers: Sequence[Row]
    running: Sequence[Row]
    """The longest first."""
    errors: Sequence[Row]
    """Dead letters, the latest first."""


async def look(runner: Runner) -> State:
    """Look once."""
    found = await numbers.current(runner)
    workers = [dict(row) for row in await runner.run("views", "workers")]
    running = await runner.run("views", "running_page", None, None, None, None, LOOKED, LOOKED)
    errors = await runner.run("views", "dead", None, None, None, None, ERRORS, None)
    return State(
        datetime.now(UTC),
        found,
        [row for row in workers if row["status"] != "dead"],
        sorted((dict(row) for row in running), key=lambda row: row["claimed_at"]),
        [dict(row) for row in errors],
    )
