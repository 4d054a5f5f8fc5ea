"""Are the jobs of workers that died returned in time?"""

from __future__ import annotations

from ...model.moments import span
from ...model.words import plural
from ..check import Check, Found, Patient, graded

WARN = 10.0
FAIL = 60.0
"""Seconds since the end of a lease that nobody has swept."""
COUNTED = 10_000


async def look(patient: Patient) -> Found:
    row = await patient.row("leases", COUNTED)
    swept = f"the last sweep was {span(row['swept'])} ago" if row["swept"] is not None else "nothing was ever swept"
    if row["error"]:
        return Found("fail", f"the sweep fails: {row['error']}", row["swept"], "s", "holdfast runbook housekeeping")
    oldest = row["oldest"] or 0.0
    level = graded(oldest, WARN, FAIL)
    if level == "ok":
        return Found("ok", f"no lease is over; {swept}", oldest, "s")
    return Found(
        level,
        f"the lease of {plural(row['jobs'], 'job')} is over, for {span(oldest)}, and nobody has returned "
        f"{'it' if row['jobs'] == 1 else 'them'}; {swept}",
        oldest, "s", "start a worker; if one runs, a session locks the rows: holdfast runbook expired-leases",
    )  # fmt: skip


CHECK = Check("leases", "expired-leases", look)
