"""Was a queue left paused?"""

from __future__ import annotations

from ...model.moments import span
from ...model.words import plural
from ..check import Check, Found, Patient

WARN = 600.0
"""Seconds for which a queue is paused while jobs of it are due."""


async def look(patient: Patient) -> Found:
    rows = [row for row in await patient.rows("paused") if row["seconds"] >= WARN]
    if not rows:
        return Found("ok", f"no queue with due jobs is paused for longer than {span(WARN)}", 0.0, "s")
    first = rows[0]
    more = f"; and {plural(len(rows) - 1, 'more queue')}" if len(rows) > 1 else ""
    return Found(
        "warn",
        f"queue {first['name']} is paused for {span(first['seconds'])}, and jobs of it are due{more}",
        first["seconds"], "s", f"holdfast queue resume {first['name']}",
    )  # fmt: skip


CHECK = Check("paused", "due-lag", look)
