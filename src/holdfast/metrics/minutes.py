"""Add what a supervisor has counted to the minutes."""

from __future__ import annotations

from collections.abc import Mapping

from ..db.runner import Runner
from ..model.numbers import BUCKETS, COUNTS, Attempts


async def add(runner: Runner, counted: Mapping[tuple[str, str], Attempts]) -> None:
    """Add these counts, by queue and kind, to the minute that it is now."""
    pairs = sorted(counted)
    values = [counted[pair] for pair in pairs]
    await runner.run(
        "metrics", "add_minutes",
        [queue for queue, _ in pairs], [kind for _, kind in pairs],
        *([getattr(each, name) for each in values] for name in COUNTS),
        [count for each in values for count in each.run.counts],
        [count for each in values for count in each.pickup.counts],
        BUCKETS,
        [each.run.sum for each in values], [each.pickup.sum for each in values],
    )  # fmt: skip
