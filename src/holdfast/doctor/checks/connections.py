"""Are there connections left?"""

from __future__ import annotations

from ..check import Check, Found, Patient, graded

WARN = 0.8
FAIL = 0.95
"""Share of the connections that ordinary roles may open."""


async def look(patient: Patient) -> Found:
    row = await patient.row("connections")
    share = row["used"] / max(row["most"], 1)
    level = graded(share, WARN, FAIL)
    sentence = f"{row['used']} of {row['most']} connections are used, {share:.0%}"
    if level == "ok":
        return Found("ok", sentence, share * 100, "%")
    return Found(
        level, f"{sentence}: when none is left, workers cannot reconnect", share * 100, "%",
        "close idle ones (holdfast runbook connections shows whose), use a pooler, or raise max_connections",
    )  # fmt: skip


CHECK = Check("connections", "connections", look)
