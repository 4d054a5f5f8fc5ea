"""Find jobs that wait because no worker knows their kind: most often, a module with tasks is not imported."""

from __future__ import annotations

from collections.abc import Sequence

from ..db.link import Link
from ..model.occurrences import Unknown

LOOK_AT = 1000
"""Rows of each queue and priority, those that wait longest. No others are counted."""


async def find(link: Link, queues: Sequence[str], kinds: Sequence[str], versions: str) -> list[Unknown]:
    """Return the kinds that wait in these queues, and that neither this worker nor another live one can run."""
    rows = await link.run("kinds", "unknown", list(queues), list(kinds), versions, LOOK_AT)
    return [Unknown(queue, kind, version, count, count >= LOOK_AT, app) for queue, kind, version, count, app in rows]
