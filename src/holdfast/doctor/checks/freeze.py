"""Is vacuum behind with freezing, so that the server may stop to accept writes?"""

from __future__ import annotations

from ..check import Check, Found, Patient, graded

WARN = 0.5
FAIL = 0.8
"""Share of vacuum_failsafe_age, from which vacuum drops everything else. Writes stop somewhat later."""


async def look(patient: Patient) -> Found:
    row = await patient.row("freeze", patient.database.schema)
    share = max(row["age"], row["database"]) / row["most"]
    oldest = f"table {row['name']}" if row["age"] >= row["database"] else "the database"
    sentence = f"{oldest} is {max(row['age'], row['database']):,} transactions old, {share:.0%} of vacuum_failsafe_age"
    level = graded(share, WARN, FAIL)
    remedy = None
    if level != "ok":
        remedy = "see the check horizon: what it names also keeps rows from being frozen; then run: vacuum (freeze)"
    return Found(level, sentence, share * 100, "%", remedy)


CHECK = Check("freeze", "freeze-age", look)
