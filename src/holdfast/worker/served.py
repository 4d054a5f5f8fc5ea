"""What a worker serves: everything that it needs to know about an application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..db.database import Database
from ..definitions import Definition
from ..inbox.claim import Known
from ..model.tracing import Tracing
from ..outbox.routes import Route
from ..receiving.consuming import Consumed
from ..schedules.declared import Declared
from .lifespan import Lifespan


class Served(msgspec.Struct, frozen=True):
    database: Database
    definitions: Mapping[str, Definition]
    """By kind, with the middleware around their handlers."""
    queues: Sequence[str]
    import_path: str | None = None
    """Where a new process finds the application: `module:attribute`. None: no process will be started."""
    schedules: Sequence[Declared] = ()
    """The schedules of its code."""
    lifespan: Lifespan | None = None
    routes: Sequence[Route] = ()
    """Along which its workers send events."""

    consumers: Sequence[Consumed] = ()
    """Those whose messages wait in one of the queues."""
    tracing: Tracing | None = None
    """What surrounds its attempts."""

    @property
    def posts(self) -> list[list[str]]:
        """The queues of each claim loop of a worker: its jobs, then each route."""
        return [list(self.queues), *(list(route.queues) for route in self.routes)]

    @property
    def known(self) -> Known:
        """Which kinds a worker of this application can run, and in which versions."""
        return Known({kind: (d.oldest, d.version) for kind, d in self.definitions.items()})
