"""A convoy: a claimed row of an ordered key, and rows of the key that follow it under its hold."""

from __future__ import annotations

import msgspec

from .job import Claim
from .outcome import Completed


class Convoy(msgspec.Struct, frozen=True):
    """The head has completed, and after it, in this order, rows that followed it. An outcome of the head."""

    endings: tuple[tuple[Claim, Completed], ...]
    """Of all its rows, the head first."""
