"""Is there a pooler in between, and is Holdfast told?"""

from __future__ import annotations

from ..check import Check, Found, Patient


async def look(patient: Patient) -> Found:
    if not patient.pooled:
        return Found("ok", "there is no pooler in between")
    if patient.database.pooler:
        return Found("ok", "there is a pooler in between, and Holdfast is told (pooler=True)")
    return Found(
        "warn",
        "there is a pooler in between that Holdfast is not told about: prepared statements and settings of the "
        "session may be lost",
        remedy="set Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler",
    )


CHECK = Check("pooler", "pooler", look)
