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
        return Found("ok", f"no lease has expired; {swept}", oldest, "s")
    return Found(
        level,
        f"{_leases(row['jobs'], span(oldest))} not been swept; {swept}",
        oldest, "s", "start a worker; if one runs, a session locks the rows: holdfast runbook expired-leases",
    )  # fmt: skip


def _leases(jobs: int, ago: str) -> str:
    if jobs == 1:
        return f"the lease of 1 job expired {ago} ago and has"
    return f"the leases of {plural(jobs, 'job')} expired, the oldest {ago} ago, and have"


CHECK = Check("leases", "expired-leases", look)
