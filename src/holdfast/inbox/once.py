"""once(): a durable marker around an effect outside the database.

The effect can still happen twice in one window: after it has happened, and before its marker is committed.
"""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from ..db.runner import Runner
from ..errors import LeaseLost
from ..probes import probe


class Entry(Enum):
    FIRST = "first"
    DONE = "done"
    BUSY = "busy"


async def enter(runner: Runner, key: str, job: UUID, fence: int) -> Entry:
    """Should this attempt make the effect?"""
    rows = await runner.run("inbox", "once_enter", key, job, fence)
    held, done, busy = rows[0]
    if not held:
        raise LeaseLost(f"once({key!r}): this attempt no longer owns its job")
    return Entry.DONE if done else Entry.BUSY if busy else Entry.FIRST


async def finish(runner: Runner, key: str, fence: int) -> None:
    """Note that the effect has happened; no attempt enters again."""
    probe("once.before")
    if not await runner.run("inbox", "once_finish", key, fence):
        raise LeaseLost(f"once({key!r}): a newer attempt has entered since then, and its marker counts")
