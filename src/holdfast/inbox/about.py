"""What the answer of a claim says about the claim itself. The rest of the answer are the claimed rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from ..model.floor import Position


class QueueKey(msgspec.Struct, frozen=True):
    queue: str
    key: str


class About(msgspec.Struct, frozen=True):
    at: datetime
    """The database's time."""
    found: int
    """How many rows the scan found."""
    paused: Sequence[str] = ()
    owned: Sequence[str] = ()
    """Queues."""
    snapshot: str | None = None
    running: Sequence[int] = ()
    """Of a rescan: its snapshot, and the xids that were running after it was taken."""
    suspects: bool | None = None
    """Do suspects wait? Known after a rescan of the free course only."""
    guarded: bool | None = None
    """Do ordered rows wait? Known if the claim asked for it."""
    reached: int | None = None
    """The last lane that was scanned, counted from 1; None: all were."""
    left: int = 0
    """How many rows were found and left as they were."""
    stops: Sequence[tuple[int, datetime, int]] = ()
    """Lanes whose scan did not reach the last due row, and where it stopped."""
    busy: Sequence[int] = ()
    """Which of the vacated keys, counted from 1, another worker has locked: to be asked about again."""
    passed: Sequence[QueueKey] = ()
    """Keys of which rows were passed."""
    empty: Sequence[QueueKey] = ()
    """Vacated keys of which nothing waits."""

    def ends(self, lanes: int) -> list[Position | None]:
        """Where the scan of each lane ended: at the time of the claim, if it saw all due rows; None: not reached."""
        reached = lanes if self.reached is None else self.reached
        ends: list[Position | None] = [(self.at, 0)] * reached + [None] * (lanes - reached)
        for lane, at, seq in self.stops:
            ends[lane - 1] = at, seq
        return ends


_decoder = msgspec.json.Decoder(About)


def about(text: str) -> About:
    return _decoder.decode(text)
