"""Do due jobs wait because all hands are busy?"""

from __future__ import annotations

from ...model.moments import span
from ..check import Check, Found, Patient, graded

WARN = 10.0
FAIL = 600.0
"""Seconds for which a job is due that a live worker could run."""
MOST = 50


async def look(patient: Patient) -> Found:
    rows = await patient.rows("backlog", MOST)
    worst = rows[0] if rows else None
    if worst is None or worst["oldest"] < WARN:
        return Found("ok", "due jobs are claimed within seconds", worst["oldest"] if worst else 0.0, "s")
    running, hands = worst["running"] or 0, worst["hands"]
    busy = running >= hands
    return Found(
        graded(worst["oldest"], WARN, FAIL),
        f"the oldest due job of queue {worst['queue']} waits for {span(worst['oldest'])}; {running} of {hands} hands "
        "of its workers are busy",
        worst["oldest"], "s",
        "raise holdfast worker --concurrency (handlers that wait) or --processes (handlers that compute)" if busy else
        "ask about one of its jobs: holdfast job explain ID; and see holdfast measure",
    )  # fmt: skip


CHECK = Check("backlog", "due-lag", look)
