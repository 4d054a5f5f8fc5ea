"""Renew the leases of rows that workers hold, and find those that were lost or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from ..db.link import Link
from ..model.job import Hold
from ..probes import probe


class Renewal(msgspec.Struct, frozen=True):
    renewed: set[UUID]
    lost: set[UUID]
    """Neither renewed nor held: another worker may have them. A row that is only locked is in neither set."""


async def renew(link: Link, holds: Sequence[Hold], lease: float) -> Renewal:
    """Renew leases of one worker."""
    if not holds:
        return Renewal(set(), set())
    probe("renew.before")
    rows = await link.run("inbox", "renew", *_columns(holds), holds[0].worker, lease)
    renewed = {row[0] for row in rows}
    missing = [hold for hold in holds if hold.id not in renewed]
    if not missing:
        return Renewal(renewed, set())
    rows = await link.run("inbox", "held", *_columns(missing), missing[0].worker)
    locked = {row[0] for row in rows}
    return Renewal(renewed, {hold.id for hold in missing if hold.id not in locked})


def _columns(holds: Sequence[Hold]) -> tuple[list[UUID], list[int]]:
    return [hold.id for hold in holds], [hold.generation for hold in holds]


async def cancelled(link: Link, workers: Sequence[str]) -> set[Hold]:
    """The holds of these workers whose job was cancelled."""
    rows = await link.run("inbox", "cancelled", list(workers))
    return {Hold(worker, id, generation) for id, generation, worker in rows}
