"""What a handler can ask its worker while it runs. Each is answered under the hold of its attempt, or rejected."""

from __future__ import annotations

import msgspec


class EnterOnce(msgspec.Struct, tag=True, frozen=True):
    """At the start of a once() block: must the effect still happen?"""

    key: str


class FinishOnce(msgspec.Struct, tag=True, frozen=True):
    """At the end of a once() block: the effect has happened."""

    key: str


Question = EnterOnce | FinishOnce
