"""The ring: which of the live workers owns which bucket.

    0 ────●A──────●B───●A─────────●C────●B──────▶ 2³² = 0        owner: the first point clockwise
             ▲bucket 17 is B's

Every member has POINTS points on a circle of 2³², so that members own about the same share and a leaver's share falls
to all others. A bucket is the first ten bits of its keys' hash, so it lies where the keys do: at `bucket << 22`.

Equal sets of members make equal rings, in any order and on any host: nobody has to agree on anything but who is there.
Views may differ for a moment; the ring is locality, a hint, and leases and the guard of order hold without it.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable

from .keys import BUCKETS

POINTS = 150
"""Per member. Fewer make shares uneven; more make rings dear."""
_SPACING = 2**32 // BUCKETS
_UNPACK = struct.Struct(f">{POINTS}I").unpack


def points(member: str) -> tuple[int, ...]:
    """The member's points, as shake256 of its name spreads them; in the order of the hash, not of the circle."""
    return _UNPACK(hashlib.shake_256(member.encode()).digest(4 * POINTS))


class Ring:
    """Every bucket's owner, for one set of members."""

    __slots__ = ("_owners", "members")

    def __init__(self, members: Iterable[str]) -> None:
        self.members: frozenset[str] = frozenset(members)
        # Two members on one point are as good as impossible; the name decides, so that even then all agree.
        circle = sorted((point, member) for member in self.members for point in points(member))
        places = [point for point, _ in circle]
        self._owners: tuple[str | None, ...] = tuple(
            circle[bisect_left(places, bucket * _SPACING) % len(circle)][1] if circle else None
            for bucket in range(BUCKETS)
        )

    def owner(self, bucket: int) -> str | None:
        """Who owns this bucket; None when nobody is there."""
        return self._owners[bucket]

    def buckets_of(self, member: str) -> tuple[int, ...]:
        """The member's buckets, rising; none for one that is not a member."""
        return tuple(bucket for bucket, owner in enumerate(self._owners) if owner == member)

    def shares(self) -> dict[str, int]:
        """How many buckets each member owns."""
        counts = dict.fromkeys(sorted(self.members), 0)
        for owner in self._owners:
            if owner is not None:
                counts[owner] += 1
        return counts
