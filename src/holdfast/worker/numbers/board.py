"""The board: what a worker process has counted, in memory that its keeper can read without its help.

    header   how many pairs there are
    pairs    a sequence number, the names of the queue and the kind, and two copies of the values

The worker writes the copy that is not in use, and then the sequence number, whose last bit says which copy is. So if
the process is killed while it writes, the other copy is whole. A reader compares the sequence number before and after.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Final

from ...model.numbers import BUCKETS, COUNTS, Attempts, Histogram

PAIRS: Final = 257
"""Most pairs of a queue and a kind: the first is for what belongs to none, the last for all that are too many."""
_NAME: Final = 512
"""Bytes of a name: 128 characters."""
_NUMBER = struct.Struct("<q")
_NAMES = struct.Struct(f"<H{_NAME}sH{_NAME}s")
_VALUES = struct.Struct(f"<{len(COUNTS)}q{BUCKETS}qd{BUCKETS}qd")
_AT_NAMES: Final = 8
_AT_VALUES: Final = _AT_NAMES + _NAMES.size + 4
_PAIR: Final = _AT_VALUES + 2 * _VALUES.size
_HEADER: Final = 8
SIZE: Final = _HEADER + PAIRS * _PAIR

Pair = tuple[str, str]
"""(queue, kind)"""


class Board:
    """Both sides of the board."""

    def __init__(self, map: mmap.mmap, base: int) -> None:
        self._map = map
        self._base = base

    @property
    def pairs(self) -> int:
        """How many there are."""
        return int(_NUMBER.unpack_from(self._map, self._base)[0])

    # The worker's side

    def add(self, pair: Pair) -> int:
        """Add a pair; return its place."""
        place = self.pairs
        queue, kind = (name.encode()[:_NAME] for name in pair)
        _NAMES.pack_into(self._map, self._at(place) + _AT_NAMES, len(queue), queue, len(kind), kind)
        _NUMBER.pack_into(self._map, self._base, place + 1)
        return place

    def write(self, place: int, values: Attempts) -> None:
        """Replace the values of a pair."""
        at = self._at(place)
        sequence = _NUMBER.unpack_from(self._map, at)[0] + 1
        counts = [getattr(values, name) for name in COUNTS]
        run, pickup = values.run, values.pickup
        _VALUES.pack_into(
            self._map, at + _AT_VALUES + (sequence & 1) * _VALUES.size,
            *counts, *run.counts, run.sum, *pickup.counts, pickup.sum,
        )  # fmt: skip
        _NUMBER.pack_into(self._map, at, sequence)

    # The keeper's side

    def read(self) -> Iterator[tuple[Pair, Attempts]]:
        """Every pair with its values."""
        for place in range(min(self.pairs, PAIRS)):
            at = self._at(place)
            queue_size, queue, kind_size, kind = _NAMES.unpack_from(self._map, at + _AT_NAMES)
            names = queue[:queue_size].decode(errors="replace"), kind[:kind_size].decode(errors="replace")
            yield names, self._values(at)

    def _values(self, at: int) -> Attempts:
        for _ in range(100):
            sequence = _NUMBER.unpack_from(self._map, at)[0]
            values = _VALUES.unpack_from(self._map, at + _AT_VALUES + (sequence & 1) * _VALUES.size)
            if _NUMBER.unpack_from(self._map, at)[0] == sequence:
                break
        counts, rest = values[: len(COUNTS)], values[len(COUNTS) :]
        return Attempts(
            **dict(zip(COUNTS, counts, strict=True)),
            run=Histogram(list(rest[:BUCKETS]), rest[BUCKETS]),
            pickup=Histogram(list(rest[BUCKETS + 1 : -1]), rest[-1]),
        )

    def _at(self, place: int) -> int:
        return self._base + _HEADER + place * _PAIR
