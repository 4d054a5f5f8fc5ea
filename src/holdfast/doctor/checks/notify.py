"""Do notifications arrive, so that sleeping workers wake at once?"""

from __future__ import annotations

import asyncio
import secrets
import time

from ..check import Check, Found, Patient

WARN = 0.1
NONE = 2.0
"""Seconds after which a notification is not waited for any longer."""


async def look(patient: Patient) -> Found:
    if patient.pooled:
        # A LISTEN through a transaction pooler stays with whichever session it met.
        return Found(
            "warn",
            "connected through a pooler, which passes no notifications on: an idle worker finds a job at its next poll",
            remedy="give workers that must be quick a direct connection; or lower holdfast worker --poll",
        )
    token = f"holdfast_doctor_{secrets.token_hex(8)}"
    connection = await patient.database.connect("doctor notify")
    heard = asyncio.Event()
    try:
        await connection.add_listener(token, lambda *_: heard.set())
        began = time.monotonic()
        await connection.execute("select pg_catalog.pg_notify($1, '')", token)
        try:
            async with asyncio.timeout(NONE):
                await heard.wait()
        except TimeoutError:
            return Found(
                "fail",
                f"a notification to ourselves did not arrive within {NONE:.0f} s: sleeping workers are not woken",
                remedy="look for a pooler or proxy in between; a full queue: select pg_notification_queue_usage()",
            )
        took = time.monotonic() - began
        return Found(
            "warn" if took >= WARN else "ok",
            f"a notification to ourselves takes {took * 1000:.1f} ms",
            took * 1000, "ms", "the server or the network is slow: holdfast measure" if took >= WARN else None,
        )  # fmt: skip
    finally:
        await connection.close(timeout=5)


CHECK = Check("notify", "deaf-workers", look)
