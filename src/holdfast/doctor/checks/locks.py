"""Does somebody wait for a lock?"""

from __future__ import annotations

from ...model.moments import span
from ...model.words import plural
from ..check import Check, Found, Patient, graded

WARN = 5.0
FAIL = 30.0
"""Seconds of waiting."""


async def look(patient: Patient) -> Found:
    rows = [row for row in await patient.rows("locks") if row["seconds"] >= WARN]
    if not rows:
        return Found("ok", f"no session waits for a lock for longer than {WARN:.0f} s", 0.0, "s")
    worst = rows[0]
    blockers = ", ".join(f"session {pid}" for pid in worst["blockers"]) or "a session that has ended"
    return Found(
        graded(worst["seconds"], WARN, FAIL),
        f"{plural(len(rows), 'session')} wait{'s' if len(rows) == 1 else ''} for a lock; session {worst['pid']} waits "
        f"for {worst['what']} for {span(worst['seconds'])}, because of {blockers}",
        worst["seconds"], "s",
        f"look at what it does, and end it if you must: select pg_terminate_backend({worst['blockers'][0]})"
        if worst["blockers"] else None,
    )  # fmt: skip


CHECK = Check("locks", "lock-waits", look)
