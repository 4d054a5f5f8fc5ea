"""What a handler may ask of its worker while it runs. Each is answered under the hold of its attempt, or refused."""

from __future__ import annotations

import msgspec


class EnterOnce(msgspec.Struct, tag=True, frozen=True):
    """At the beginning of a once() block: is the effect still to be made?"""

    key: str


class FinishOnce(msgspec.Struct, tag=True, frozen=True):
    """At the end of a once() block: the effect has happened."""

    key: str


Question = EnterOnce | FinishOnce
