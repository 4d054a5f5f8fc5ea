"""Write notes: a loop beside the work, on a connection that lives as long as the write."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from ..db.database import Database
from ..db.link import Link, backoff
from ..errors import Contended, Unreachable
from .notes import Note, Notes

log = logging.getLogger("holdfast.journal")

EVERY = 1.0
"""Seconds between two looks for notes."""
LAST = 3.0
"""Seconds for which the last notes of a process are tried."""


class Writer:
    def __init__(self, database: Database, notes: Notes, deadline: float) -> None:
        self._database = database
        self._notes = notes
        self._deadline = deadline
        self._failures = 0
        self.lost = 0
        """What could not be written, and is not tried again."""

    async def run(self) -> None:
        """Run until cancelled. A failed write is retried, and an error costs its notes only."""
        while True:
            await asyncio.sleep(EVERY * random.uniform(0.8, 1.2) + (backoff(self._failures) if self._failures else 0))
            await self.write(self._notes.take())

    async def close(self) -> None:
        """Write what is left, within LAST seconds."""
        try:
            async with asyncio.timeout(LAST):
                while notes := self._notes.take(everything=True):
                    await self.write(notes)
                    if self._failures:
                        await asyncio.sleep(backoff(self._failures))
        except TimeoutError:
            pass
        if left := len(self._notes):
            self._lose(left, "the server did not answer")

    async def write(self, notes: Sequence[Note]) -> None:
        if not notes:
            return
        link = Link(self._database, "journal", deadline=self._deadline)
        try:
            await link.run("journal", "write", self._encoded(notes))
            self._failures = 0
        except (Unreachable, Contended, OSError):
            self._failures += 1
            self._notes.put_back(notes)
        except asyncio.CancelledError:
            self._notes.put_back(notes)
            raise
        except Exception as error:
            # Its text is in the log already if the worker met it, too, as when the server refuses its login.
            self._lose(sum(note.count for note in notes), type(error).__name__)
            log.debug("the journal could not be written", exc_info=error)
        finally:
            await link.close()

    def _encoded(self, notes: Sequence[Note]) -> str:
        now = self._notes.clock()
        return msgspec.json.encode([_row(note, now) for note in notes]).decode()

    def _lose(self, count: int, why: str) -> None:
        self.lost += count
        said = "1 thing that happened is" if count == 1 else f"{count} things that happened are"
        log.warning("%s not in the journal: %s", said, why)


def _row(note: Note, now: float) -> dict[str, Any]:
    return {
        "what": note.what,
        "subject": note.subject,
        "ago": now - note.at,
        "over": now - note.until if note.until is not None else None,
        "count": note.count,
        "details": note.details,
        "shared": note.shared,
    }
