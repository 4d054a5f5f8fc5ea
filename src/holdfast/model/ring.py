"""The ring: which live worker owns which bucket.

    0 ────●A──────●B───●A─────────●C────●B──────▶ 2³² = 0        owner: the first point clockwise
             ▲bucket 17 is B's

Every member has POINTS points on a circle of 2³², so that members own about the same share, and the share of a member
that leaves is divided among all others. A bucket is the first ten bits of the hash of its keys, so its position is that
of the keys: `bucket << 22`.

Equal sets of members make equal rings, in any order and on any host, so workers need to agree only on the members.
Their views may differ for a moment. The ring is only a hint, for locality: leases and order hold without it.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache

from .keys import BUCKETS

POINTS = 150
"""Per member. Fewer make the shares uneven; more make rings expensive."""
_SPACING = 2**32 // BUCKETS
_UNPACK = struct.Struct(f">{POINTS}I").unpack


def points(member: str) -> tuple[int, ...]:
    """Return the member's points, from shake256 of its name; in the order of the hash, not of the circle."""
    return _UNPACK(hashlib.shake_256(member.encode()).digest(4 * POINTS))


class Ring:
    """The owner of every bucket, for one set of members."""

    __slots__ = ("_owners", "members")

    def __init__(self, members: Iterable[str]) -> None:
        self.members: frozenset[str] = frozenset(members)
        # Two members on one point are very unlikely; then the name decides, so that all hosts agree.
        circle = sorted((point, member) for member in self.members for point in points(member))
        places = [point for point, _ in circle]
        self._owners: tuple[str | None, ...] = tuple(
            circle[bisect_left(places, bucket * _SPACING) % len(circle)][1] if circle else None
            for bucket in range(BUCKETS)
        )

    def owner(self, bucket: int) -> str | None:
        """Return the owner of this bucket; None if there are no members."""
        return self._owners[bucket]

    def buckets_of(self, member: str) -> tuple[int, ...]:
        """Return the member's buckets in ascending order; none if it is not a member."""
        return tuple(bucket for bucket, owner in enumerate(self._owners) if owner == member)

    def shares(self) -> dict[str, int]:
        """Return how many buckets each member owns."""
        counts = dict.fromkeys(sorted(self.members), 0)
        for owner in self._owners:
            if owner is not None:
                counts[owner] += 1
        return counts


@lru_cache(maxsize=64)
def owner_of(members: frozenset[str], bucket: int) -> str | None:
    """Return the owner of one bucket, as `Ring` does, without making the ring: to explain one job, not to claim."""
    place = bucket * _SPACING
    points_of = ((min((point - place) % 2**32 for point in points(member)), member) for member in members)
    return min(points_of, default=(0, None))[1]


def digest(members: Mapping[str, Iterable[str]]) -> int:
    """Return a number for the members of each queue that somebody sees: equal for equal views, and never 0."""
    text = "\n".join(f"{queue}: {' '.join(sorted(names))}" for queue, names in sorted(members.items()))
    return 1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
