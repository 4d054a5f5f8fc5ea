"""Declare the tasks of a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..db.link import Link
from ..errors import ConfigurationError


class Declared(msgspec.Struct, frozen=True):
    """What is stored of a task."""

    kind: str
    version: int
    app: str
    """The package that declares it."""
    arguments: Mapping[str, str]
    """Their types, by name."""
    retry: tuple[float, float, float, float] | None
    """Base, factor, cap and jitter, in seconds."""
    max_snoozes: int | None
    keep: int | None
    """For how many days a completed job is kept; 0: it leaves no row; None: as the setting archive_days says."""
    workflow: bool = False
    """Its jobs are instances of a workflow: to cancel one is to undo it."""


async def declare(link: Link, tasks: Iterable[Declared]) -> None:
    """Store what the code says about its tasks. Raises if another application has another task of the same name."""
    ordered = sorted(tasks, key=lambda task: task.kind)  # one order for all workers that start at once: no deadlock
    numbers = [task.retry or (None, None, None, None) for task in ordered]
    rows = await link.keep_trying(
        "kinds", "declare",
        [task.kind for task in ordered], [task.version for task in ordered], [task.app for task in ordered],
        [msgspec.json.encode(task.arguments).decode() for task in ordered],
        *([each[n] for each in numbers] for n in range(4)),
        [task.max_snoozes for task in ordered],
        [task.keep for task in ordered],
        [task.workflow for task in ordered],
    )  # fmt: skip
    if rows:
        kind, app, theirs, ours = rows[0]
        raise ConfigurationError(
            f"The application {app!r} has another task {kind!r} in this schema. It takes {_shown(theirs)}; this one "
            f"takes {_shown(ours)}. Workers of both would run each other's jobs. Rename one of them (name='…'), or use "
            f"another schema. If {app!r} no longer exists, remove its row for {kind!r} from holdfast.kinds."
        )


def _shown(arguments: str) -> str:
    named: dict[str, str] = msgspec.json.decode(arguments)
    return ", ".join(f"{name}: {kind}" for name, kind in named.items()) or "no arguments"
