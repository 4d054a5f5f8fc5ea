"""Do dead rows pile up?"""

from __future__ import annotations

from ..check import Check, Found, Patient, graded

WARN = 1.0
FAIL = 10.0
"""Dead rows for each live one."""
FEW = 20_000
"""Dead rows that are nothing to speak of, whatever lives beside them."""


async def look(patient: Patient) -> Found:
    tables = [row for row in await patient.rows("dead_rows", patient.database.schema) if row["dead"] >= FEW]
    worst = max(tables, key=lambda row: row["dead"] / max(row["live"], 1), default=None)
    if worst is None:
        return Found("ok", "vacuum keeps up: no table has many dead rows", 0.0, "dead rows")
    table = f"{patient.database.schema}.{worst['name']}"
    level = graded(worst["dead"] / max(worst["live"], 1), WARN, FAIL)
    sentence = f"{table} has {worst['dead']:,} dead rows beside {worst['live']:,} live ones"
    if level == "ok":
        return Found("ok", sentence, float(worst["dead"]), "dead rows")
    return Found(
        level, sentence, float(worst["dead"]), "dead rows",
        f"look at the checks horizon and settings first; then run: vacuum {table}",
    )  # fmt: skip


CHECK = Check("dead_rows", "dead-rows", look)
