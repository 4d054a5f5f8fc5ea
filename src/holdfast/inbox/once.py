"""once(): a durable marker around an effect outside the database.

The one window in which the effect can still happen twice: after it happened, before its marker is committed.
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
    """Is the effect still to be made, and is it ours to make?"""
    rows = await runner.run("inbox", "once_enter", key, job, fence)
    held, done, busy = rows[0]
    if not held:
        raise LeaseLost(f"once({key!r}): this attempt no longer owns its job")
    return Entry.DONE if done else Entry.BUSY if busy else Entry.FIRST


async def finish(runner: Runner, key: str, fence: int) -> None:
    """The effect has happened; nobody enters again."""
    probe("once.before")
    if not await runner.run("inbox", "once_finish", key, fence):
        raise LeaseLost(f"once({key!r}): a newer attempt has entered since; its marker stands")
