"""Notes in memory, until they are written: bounded in number, and in how fast they can become rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

BURST = 20
"""Notes that a process may write at once."""
A_MINUTE = 2.0
"""Notes a minute after that."""


class Note(msgspec.Struct):
    what: str
    subject: str = ""
    at: float = 0.0
    """By the clock of `Notes`."""
    until: float | None = None
    count: int = 1
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    shared: bool = False
    """It happens often: such notes share a row a minute."""

    def add(self, other: Note) -> None:
        """Let this note stand for another one, too."""
        self.until = max(self.until or self.at, other.until or other.at)
        self.count += other.count
        for name, value in other.details.items():
            before = self.details.get(name)
            both = isinstance(value, int) and isinstance(before, int)
            self.details[name] = before + value if both else value


class Notes:
    """Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._waiting: list[Note] = []
        self._folded: dict[str, Note] = {}
        """What came too fast, by what happened."""
        self._allowed = float(BURST)
        self._counted_at = clock()

    def add(self, note: Note) -> None:
        """Keep a note until it is taken. Beyond the rate, it is folded into the one of its kind."""
        with self._lock:
            if note.shared and (same := self._same(note)) is not None:
                same.add(note)
            elif self._may_write():
                self._waiting.append(note)
            else:
                self._fold(note)

    def take(self, everything: bool = False) -> list[Note]:
        """The notes to write now, oldest first. `everything`: also those that came too fast."""
        with self._lock:
            taken, self._waiting = self._waiting, []
            for what in list(self._folded):
                if everything or self._may_write():
                    taken.append(self._folded.pop(what))
            return sorted(taken, key=lambda note: note.at)

    def put_back(self, notes: Iterable[Note]) -> None:
        """Keep notes that could not be written."""
        with self._lock:
            for note in notes:
                if note.shared and (same := self._same(note)) is not None:
                    note.add(same)
                    self._waiting.remove(same)
                self._waiting.append(note)

    def __len__(self) -> int:
        """How many things the waiting notes stand for."""
        with self._lock:
            return sum(note.count for note in (*self._waiting, *self._folded.values()))

    def _same(self, note: Note) -> Note | None:
        mine = (note.what, note.subject)
        return next((each for each in self._waiting if each.shared and (each.what, each.subject) == mine), None)

    def _may_write(self) -> bool:
        now = self.clock()
        self._allowed = min(BURST, self._allowed + (now - self._counted_at) * A_MINUTE / 60)
        self._counted_at = now
        if self._allowed < 1:
            return False
        self._allowed -= 1
        return True

    def _fold(self, note: Note) -> None:
        folded = self._folded.get(note.what)
        if folded is None:
            numbers = {name: value for name, value in note.details.items() if type(value) is int}
            self._folded[note.what] = Note(
                note.what, "", note.at, note.until, note.count, {**numbers, "folded": True}, shared=True
            )
        else:
            note.details = {name: value for name, value in note.details.items() if type(value) is int}
            folded.add(note)
