"""Renew: keep the leases of rows in flight, and learn which were lost or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ..db.link import Link
from ..probes import probe

Fence = tuple[UUID, int]
"""(id, generation)"""


@dataclass(frozen=True, slots=True)
class Renewal:
    renewed: set[UUID]
    lost: set[UUID]
    """Neither renewed nor held: another owner may have them. A row that is merely locked is in neither set."""


async def renew(link: Link, worker: str, held: Sequence[Fence], lease: float) -> Renewal:
    """Renew what this worker holds."""
    ids, generations = [id for id, _ in held], [generation for _, generation in held]
    probe("renew.before")
    rows = await link.run("inbox", "renew", ids, generations, worker, lease)
    renewed = {row[0] for row in rows}
    missing = [fence for fence in held if fence[0] not in renewed]
    if not missing:
        return Renewal(renewed, set())
    ids, generations = [id for id, _ in missing], [generation for _, generation in missing]
    rows = await link.run("inbox", "held", ids, generations, worker)
    locked = {row[0] for row in rows}
    return Renewal(renewed, {id for id, _ in missing if id not in locked})


async def cancelled(link: Link, workers: Sequence[str]) -> dict[str, set[Fence]]:
    """The rows in flight whose cancellation was requested, by worker."""
    found: dict[str, set[Fence]] = {}
    for id, generation, worker in await link.run("inbox", "cancelled", list(workers)):
        found.setdefault(worker, set()).add((id, generation))
    return found
