"""Name the kinds that wait and that no worker knows: when a worker starts, for a new kind, and now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from ..db.database import Database
from ..db.link import Link
from ..errors import Contended, Unreachable
from ..inbox.claim import Known
from ..kinds import unknown
from ..model.occurrences import Occurrences

log = logging.getLogger("holdfast.keeper")

LOOK_EVERY = 60.0
"""Seconds between two looks. Each reads some rows per queue and priority."""
NAME_EVERY = 15 * 60.0
"""Seconds after which kinds that still wait are named again."""


class UnknownKinds:
    def __init__(
        self, database: Database, queues: Sequence[str], known: Known, occurrences: Occurrences, deadline: float
    ) -> None:
        self._queues = list(queues)
        self._known = known
        self._occurrences = occurrences
        self._link = Link(database, "kinds", deadline=deadline)
        self._named: set[tuple[str, str, int]] = set()
        self._named_at = 0.0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.look()
            except (Unreachable, Contended, OSError) as error:
                log.debug("kinds: %s; trying again", error)  # other parts report an outage
            except Exception:
                log.exception("the search for unknown kinds failed; trying again")
            finally:
                await self._link.close()  # it is needed for a moment per minute
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        waiting = await unknown.find(self._link, self._queues, self._known.kinds, self._known.spread)
        found = {(each.queue, each.kind, each.version) for each in waiting}
        if found <= self._named and time.monotonic() - self._named_at < NAME_EVERY:
            return
        self._named, self._named_at = found, time.monotonic()
        if waiting:
            self._occurrences.kinds_unknown(waiting)
