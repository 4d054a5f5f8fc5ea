"""Shares: the buckets that this worker owns now, from the ring of the workers that are live on a queue."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable

from ..db.link import Link
from ..model.ring import Ring, digest

REFRESH = 5.0
"""Seconds for which a view of the registry is used."""

Share = tuple[int, ...]


async def live(link: Link, queues: Iterable[str]) -> dict[str, frozenset[str]]:
    """The workers that are live on each of these queues."""
    rows = await link.run("ownership", "live", sorted(queues))
    return {queue: frozenset(workers) for queue, workers in rows}


class Shares:
    """One worker's shares. The registry is read every few seconds, never once per claim.

    A worker that is not live in the registry owns nothing. Two workers may see different registries for one refresh:
    then they claim from the same buckets, or a bucket waits for that long. No row gets two owners by that, because the
    claim locks it, and no row waits for a silent owner for longer than 30 seconds and one refresh.
    """

    def __init__(self, link: Link, worker: str, refresh: float = REFRESH) -> None:
        self._link = link
        self._worker = worker
        self._refresh = refresh
        self._live: dict[str, frozenset[str]] = {}
        self._shares: dict[str, Share] = {}
        self._digest = 0
        self._session = 0
        self._until = 0.0
        self.refreshes = 0
        self.changes = 0
        """How often the shares have changed."""

    async def owned(self, queues: Collection[str]) -> dict[str, Share]:
        """The buckets of this worker in each of these queues, in ascending order; empty where it owns nothing."""
        if not queues:
            return {}
        if self._outdated or not self._shares.keys() >= set(queues):
            self._see(await live(self._link, set(queues)))
        return {queue: self._shares[queue] for queue in queues}

    @property
    def digest(self) -> int:
        """A number for the members that it sees, so that others can check whether all see the same; 0: none."""
        return self._digest

    @property
    def _outdated(self) -> bool:
        """Is the view too old, or of a session that is gone? The new session may be on another server."""
        return time.monotonic() >= self._until or self._link.connects != self._session

    def _see(self, live: dict[str, frozenset[str]]) -> None:
        # Jittered, so that a fleet started at once does not ask at once.
        self._until = time.monotonic() + self._refresh * random.uniform(1.0, 1.2)
        self._session = self._link.connects
        self.refreshes += 1
        if live == self._live:
            return
        buckets = {members: Ring(members).buckets_of(self._worker) for members in set(live.values())}
        self._live = live
        self._digest = digest(live) if live else 0
        shares = {queue: buckets[members] for queue, members in live.items()}
        if shares != self._shares:
            self._shares = shares
            self.changes += 1
