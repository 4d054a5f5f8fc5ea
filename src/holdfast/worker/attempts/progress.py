"""Collects what handlers say about their progress, and stores it: one statement a second at most, for all of them.

The last value of an attempt wins. A value that cannot be stored is tried once more, then dropped: progress must neither
delay nor fail an attempt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from uuid import UUID

import msgspec

from ...db.database import in_one_line
from ...db.runner import Runner
from ...model.job import Claim
from ...model.questions import Progress

log = logging.getLogger("holdfast.worker")

EVERY = 1.0
"""Seconds between two statements."""
TRIES = 2
"""How often a value is tried: its row may be locked for a moment, or lost."""


class _Note(msgspec.Struct):
    claim: Claim
    progress: Progress
    tries: int = 0


class ProgressNotes:
    def __init__(self, runner: Runner, loop: asyncio.AbstractEventLoop) -> None:
        self._runner = runner
        self._loop = loop
        self._lock = threading.Lock()
        self._notes: dict[UUID, _Note] = {}
        self._idle = True
        self._writing: asyncio.Task[None] | None = None

    def add(self, claim: Claim, progress: Progress) -> None:
        """Note it; from any thread."""
        with self._lock:
            self._notes[claim.id] = _Note(claim, progress)
            idle, self._idle = self._idle, False
        if idle:
            with suppress(RuntimeError):  # the loop has ended, and a handler's thread has not
                self._loop.call_soon_threadsafe(self._start)

    def close(self) -> None:
        """Store nothing more: the attempts have ended, and their progress with them."""
        if self._writing is not None:
            self._writing.cancel()

    def _start(self) -> None:
        self._writing = self._loop.create_task(self._write(), name="holdfast progress")

    async def _write(self) -> None:
        while notes := self._take():
            try:
                written = await self._store(notes)
            except Exception as error:
                log.debug("progress could not be stored: %s", in_one_line(error))
                written = set()
            self._put_back([note for id, note in notes.items() if id not in written])
            await asyncio.sleep(EVERY)

    def _take(self) -> dict[UUID, _Note]:
        with self._lock:
            notes, self._notes = self._notes, {}
            self._idle = not notes
        return notes

    async def _store(self, notes: dict[UUID, _Note]) -> set[UUID]:
        found = [notes[id] for id in sorted(notes)]
        rows = await self._runner.run(
            "inbox", "progress", [note.claim.id for note in found], [note.claim.generation for note in found],
            [note.progress.record(note.claim.attempt) for note in found], found[0].claim.worker,
        )  # fmt: skip
        return {row["id"] for row in rows}

    def _put_back(self, notes: list[_Note]) -> None:
        """Keep them for the next time, unless there are newer ones: a row may have been locked for a moment."""
        with self._lock:
            for note in notes:
                note.tries += 1
                if note.tries < TRIES:
                    self._notes.setdefault(note.claim.id, note)
