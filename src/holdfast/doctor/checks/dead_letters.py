"""Did jobs run out of attempts lately?"""

from __future__ import annotations

from ...model.words import plural
from ..check import Check, Found, Patient

LATELY = 86400.0
"""Seconds."""
COUNTED = 10_000


async def look(patient: Patient) -> Found:
    row = await patient.row("dead_letters", LATELY, COUNTED)
    more = "more than " if row["altogether"] >= COUNTED else ""
    altogether = f"{more}{plural(row['altogether'], 'dead letter')} in all"
    if not row["lately"]:
        return Found("ok", f"no job became a dead letter within a day; {altogether}", 0.0, "jobs")
    many = "more than " if row["lately"] >= COUNTED else ""
    return Found(
        "warn",
        f"{many}{plural(row['lately'], 'job')} became dead letters within a day ({altogether}), the last one: "
        f"{(row['sample'] or '').splitlines()[0][:120]}",
        float(row["lately"]), "jobs",
        "fix the cause, then: holdfast dead revive --kind KIND --dry-run, and again without --dry-run",
    )  # fmt: skip


CHECK = Check("dead_letters", "dead-letters", look)
