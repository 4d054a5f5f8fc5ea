"""Is there a pooler between Holdfast and the server, and is Holdfast told?"""

from __future__ import annotations

from ..check import Check, Found, Patient


async def look(patient: Patient) -> Found:
    if not patient.pooled:
        return Found("ok", "connected without a pooler")
    if patient.database.pooler:
        return Found("ok", "connected through a pooler, and pooler=True is set")
    return Found(
        "warn",
        "connected through a pooler, but pooler=True is not set: prepared statements and settings of the session may "
        "be lost",
        remedy="set Holdfast(pooler=True), HOLDFAST_POOLER=1 or --pooler",
    )


CHECK = Check("pooler", "pooler", look)
