"""Are tomorrow's partitions there, and the default ones empty?"""

from __future__ import annotations

from ...model.words import plural
from ..check import Check, Found, Patient

WARN = 3
"""Days for which there should be partitions, at least; a worker makes seven."""
COUNTED = 10_000
REMEDY = "start a worker: its housekeeping makes them; if one runs, holdfast runbook housekeeping says what fails"


async def look(patient: Patient) -> Found:
    rows = [row for row in await patient.rows("partitions", patient.database.schema, COUNTED) if row["used"]]
    least = min(rows, key=lambda row: row["ahead"])
    strays = {row["name"]: row["strays"] for row in rows if row["strays"]}
    if least["ahead"] < 1:
        return Found(
            "fail", f"there is no partition of {least['name']} for tomorrow: rows will go to the default one", 0.0,
            "days", REMEDY,
        )  # fmt: skip
    if strays:
        some = ", ".join(f"{plural(rows, 'row')} in {name}_default" for name, rows in strays.items())
        return Found(
            "fail",
            f"{some}: there was no partition when they came, and retention must delete them one by one",
            float(sum(strays.values())), "rows",
            "keep a worker running, which makes partitions; these rows leave when their retention ends",
        )  # fmt: skip
    if least["ahead"] < WARN:
        return Found("warn", f"{least['name']} has partitions for {plural(least['ahead'], 'day')} ahead",
                     float(least["ahead"]), "days", REMEDY)  # fmt: skip
    return Found("ok", f"partitions are made {plural(least['ahead'], 'day')} ahead", float(least["ahead"]), "days")


CHECK = Check("partitions", "partitions", look)
