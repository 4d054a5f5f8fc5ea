"""Do workers that are gone still hold jobs?"""

from __future__ import annotations

from ...model.moments import span
from ...model.words import plural
from ..check import Check, Found, Patient

LOOKED_AT = 20_000


async def look(patient: Patient) -> Found:
    rows = await patient.rows("orphans", LOOKED_AT)
    if not rows:
        return Found("ok", "every lease is held by a worker that was seen lately", 0.0, "jobs")
    jobs, first = sum(row["jobs"] for row in rows), rows[0]
    silent = f"silent for {span(first['silent'])}" if first["silent"] is not None else "not in the registry"
    return Found(
        "warn",
        f"{plural(jobs, 'job')} held by {plural(len(rows), 'worker')} that {'is' if len(rows) == 1 else 'are'} gone "
        f"({first['worker']}, {silent}); they are retried when their lease ends, in {span(first['left'])} at most",
        float(jobs), "jobs", "wait for it; or return them now: docs/runbook/give-back.md",
    )  # fmt: skip


CHECK = Check("orphans", "who-holds-what", look)
