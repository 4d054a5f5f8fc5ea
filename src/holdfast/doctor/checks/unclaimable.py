"""Do jobs wait that no live worker can run?"""

from __future__ import annotations

from ...model.moments import span
from ...model.words import plural
from ..check import Check, Found, Patient, graded

FAIL = 600.0
"""Seconds for which such a job is due."""
LOOKED_AT = 500


async def look(patient: Patient) -> Found:
    rows = await patient.rows("unclaimable", LOOKED_AT)
    if not rows:
        return Found("ok", "a live worker knows the kind of every job that is due", 0.0, "s")
    oldest = max(row["oldest"] for row in rows)
    first = rows[0]
    more = f"; and {plural(len(rows) - 1, 'more kind')}" if len(rows) > 1 else ""
    most = " or more" if first["jobs"] >= LOOKED_AT else ""
    return Found(
        graded(oldest, 0.0, FAIL),
        f"no live worker of queue {first['queue']} can run {first['kind']} version {first['version']}: "
        f"{plural(first['jobs'], 'job')}{most} wait{'s' * (first['jobs'] == 1)}{more}, the oldest for {span(oldest)}",
        oldest, "s", "start a worker of this queue whose code has this task; holdfast stats says who declared it",
    )  # fmt: skip


CHECK = Check("unclaimable", "unclaimable", look)
