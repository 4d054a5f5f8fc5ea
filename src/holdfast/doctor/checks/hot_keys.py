"""Does one ordered key hold up many jobs?"""

from __future__ import annotations

from ...model.moments import span
from ..check import Check, Found, Patient

MANY = 100
"""Jobs of one ordered key that wait."""
FAIL = 600.0
"""Seconds for which the oldest of them waits."""
PAGES = 2000


async def look(patient: Patient) -> Found:
    statement = patient.database.sql("views", "hot_keys")
    rows = await patient.connection.fetch(statement, None, 20, PAGES)
    hot = [row for row in rows if row["ordered"] and row["live"] > MANY]
    if not hot:
        return Found("ok", f"no ordered key has more than {MANY} jobs", 0.0, "jobs")
    worst = max(hot, key=lambda row: row["live"])
    about = "" if worst["share"] >= 1 else "about "
    return Found(
        "fail" if worst["age"] >= FAIL else "warn",
        f"{about}{worst['live']:,} jobs of queue {worst['queue']} share the ordered key {worst['key']!r}, the oldest "
        f"for {span(worst['age'])}: they run one after the other",
        float(worst["live"]), "jobs",
        f"see what holds it: holdfast job explain {worst['head']}; divide the key: docs/fleet.md, hot keys",
    )  # fmt: skip


CHECK = Check("hot_keys", "hot-keys", look)
