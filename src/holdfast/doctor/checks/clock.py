"""Do the clocks agree: of this machine, of the server, of the installation?"""

from __future__ import annotations

import time

from ...model.moments import span
from ..check import Check, Found, Patient, graded

WARN = 1.0
FAIL = 5.0
"""Seconds apart."""


async def look(patient: Patient) -> Found:
    before = time.time()
    row = await patient.row("clock")
    after = time.time()
    if graded(abs(row["installation"]), WARN, FAIL) != "ok":
        apart = abs(row["installation"])
        return Found(
            graded(apart, WARN, FAIL),
            f"the clock of the installation ({patient.database.schema}.clock()) is {span(apart)} away from the "
            "server's: somebody has frozen or moved it",
            apart, "s", "put it back: holdfast migrate writes functions that were changed",
        )  # fmt: skip
    # The answer was written between the two; half the trip may be an error.
    apart = max(abs(row["server"].timestamp() - (before + after) / 2) - (after - before) / 2, 0.0)
    level = graded(apart, WARN, FAIL)
    if level == "ok":
        return Found("ok", "the clocks of this machine and of the server agree", apart, "s")
    return Found(
        level,
        f"the clocks of this machine and of the server are {span(apart)} apart. Leases are not affected, "
        "because only the server's clock counts for them; but times in logs and times that are computed here are wrong",
        apart, "s", "run NTP (chrony) on both",
    )  # fmt: skip


CHECK = Check("clock", "clock", look)
