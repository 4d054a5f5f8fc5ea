"""One event, many endpoints: a delivery of the route becomes one for each endpoint; and deliveries that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ..db.runner import Runner
from ..model.job import Holding
from .schedule import ATTEMPTS

QUEUE = "out.webhooks.endpoints"
"""Where deliveries to active endpoints wait. Those of others wait in `hold.<id>`, which no worker claims."""


@dataclass(frozen=True, slots=True)
class FannedOut:
    """What has become of deliveries of the route. Those in neither list were lost: their lease is another's."""

    done: list[UUID]
    """Completed."""
    missing: list[UUID]
    """Left as they are, because their event is gone."""
    deliveries: int
    """How many were made."""
    late: int
    """Completed after their lease had expired."""


async def fan_out(runner: Runner, held: Sequence[Holding]) -> FannedOut:
    """Make a delivery for each endpoint that wants the event, and complete these rows, in one statement.

    All are held by one worker. A repeated call, after an answer was lost, finds none of its rows; look them up with
    inbox/confirm.sql as for other endings.
    """
    if not held:
        return FannedOut([], [], 0, 0)
    ordered = sorted(held, key=_by_id)
    (row,) = await runner.run(
        "webhooks", "fan_out", [each.id for each in ordered], [each.generation for each in ordered],
        ordered[0].worker, ATTEMPTS,
    )  # fmt: skip
    return FannedOut(row["done"], row["missing"], row["deliveries"], row["late"])


async def postpone(runner: Runner, held: Sequence[tuple[Holding, float]]) -> dict[UUID, str]:
    """Give deliveries back without an attempt, for so many seconds; hold those whose endpoint is paused or disabled.

    Returns the queue in which each of them waits now. Those that are missing were lost.
    """
    if not held:
        return {}
    ordered = sorted(held, key=lambda each: each[0].id)
    rows = await runner.run(
        "webhooks", "postpone", [each.id for each, _ in ordered], [each.generation for each, _ in ordered],
        [delay for _, delay in ordered], ordered[0][0].worker,
    )  # fmt: skip
    return {row["id"]: row["queue"] for row in rows}


def _by_id(held: Holding) -> UUID:
    return held.id
