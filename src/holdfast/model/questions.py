"""What a handler can ask its worker while it runs, and what it can tell it. Each question is answered under the hold of
its attempt, or rejected."""

from __future__ import annotations

import msgspec

from .outcome import trim

PROGRESS_BYTES = 500
"""Most bytes of the text of a progress report that are kept."""


class EnterOnce(msgspec.Struct, tag=True, frozen=True):
    """At the start of a once() block: must the effect still happen?"""

    key: str


class FinishOnce(msgspec.Struct, tag=True, frozen=True):
    """At the end of a once() block: the effect has happened."""

    key: str


Question = EnterOnce | FinishOnce


class Progress(msgspec.Struct, tag=True, frozen=True):
    """How far an attempt is. It is told, and not answered."""

    fraction: float
    text: str

    def record(self, attempt: int) -> str:
        """What is stored, as JSON; the statement adds the time."""
        text = trim(self.text, PROGRESS_BYTES)
        return msgspec.json.encode({"fraction": self.fraction, "text": text, "attempt": attempt}).decode()
