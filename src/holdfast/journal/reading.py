"""Read the journal."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from ..db.runner import Runner
from .story import Incident, story

LEAD = timedelta(minutes=15)
"""How far before the span numbers are read, to know what was usual."""


async def incidents(runner: Runner, since: datetime, until: datetime, limit: int, jumps: bool = True) -> list[Incident]:
    """What happened in a span of time, oldest first; of more than `limit` rows, the newest.

    `jumps`: also when due jobs suddenly waited longer, which is read from the numbers of every minute.
    """
    rows = await runner.run("journal", "entries", since, until, limit)
    entries = [
        Incident(
            row["at"], row["until"], row["what"], (row["subject"],), row["actor"], row["count"],
            msgspec.json.decode(row["details"]),
        )
        for row in rows
    ]  # fmt: skip
    pickups = await runner.run("journal", "pickups", since - LEAD, until) if jumps else []
    return [incident for incident in story(entries, [dict(row) for row in pickups]) if incident.at >= since]
