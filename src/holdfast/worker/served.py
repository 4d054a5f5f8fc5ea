"""What a worker serves: everything that it needs to know about an application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..db.database import Database
from ..definitions import Definition
from ..schedules.declared import Declared
from .lifespan import Lifespan


@dataclass(frozen=True, slots=True)
class Served:
    database: Database
    definitions: Mapping[str, Definition]
    """By kind, with the middleware around their handlers."""
    queues: Sequence[str]
    address: str | None = None
    """Where a new process finds the application: `module:attribute`. None: no process will be started."""
    schedules: Sequence[Declared] = ()
    """The schedules of its code."""
    lifespan: Lifespan | None = None
