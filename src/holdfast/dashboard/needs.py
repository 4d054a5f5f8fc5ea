"""What needs somebody, in the order of how much it hurts: a pure function of the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..model.moments import span
from ..views.numbers import Numbers

LATE = 60.0
"""Seconds of claim age from which work is late."""
LISTED = 12
TOLD = ("paused", "unclaimable", "dead_letters", "backlog", "hot_keys")
"""Checks of the doctor about what the numbers say already."""
GROUPS = 5
"""Groups of dead letters that are named."""
Level = Literal["bad", "warn"]


@dataclass(frozen=True, slots=True)
class Need:
    level: Level
    text: str
    link: str
    """Where in the dashboard it can be seen, and done."""


def needs(numbers: Numbers, paused: Mapping[str, datetime], groups: list[Any], findings: list[Any]) -> list[Need]:
    """Return what needs somebody; the first is the worst."""
    found = [*_no_workers(numbers), *_late(numbers, paused), *_unclaimable(numbers), *_dead(numbers, groups)]
    found += [
        Need("bad" if each.level == "fail" else "warn", f"doctor: {each.sentence}", "/doctor")
        for each in findings
        if each.level in ("fail", "warn") and each.name not in TOLD
    ]
    found += [Need("warn", f"queue {queue} is paused", f"/queues?queue={queue}") for queue in sorted(paused)]
    return sorted(found, key=lambda need: need.level != "bad")[:LISTED]


def _no_workers(numbers: Numbers) -> list[Need]:
    if numbers.workers.get("alive") or not numbers.depth.value:
        return []
    return [Need("bad", "no worker is live, and jobs wait; start one: holdfast worker module:attribute", "/workers")]


def _late(numbers: Numbers, paused: Mapping[str, datetime]) -> list[Need]:
    late = [each for each in numbers.queues if (each.claim_age or 0.0) > LATE and each.queue not in paused]
    return [
        Need(
            "bad",
            f"queue {each.queue}: due work waits for {span(each.claim_age or 0.0)}",
            f"/queues?queue={each.queue}",
        )
        for each in sorted(late, key=lambda each: -(each.claim_age or 0.0))
    ]


def _unclaimable(numbers: Numbers) -> list[Need]:
    return [
        Need(
            "bad",
            f"no live worker can run {count} × {kind} of queue {each.queue}",
            f"/jobs?queue={each.queue}&kind={kind}",
        )
        for each in numbers.queues
        for kind, count in each.unclaimable.items()
    ]


def _dead(numbers: Numbers, groups: list[Any]) -> list[Need]:
    if groups:
        return [
            Need(
                "warn",
                f"{each['jobs']:,}{'+' if each['more'] else ''} × {each['error']} in {each['kind'] or each['queue']}",
                f"/dead?group={each['group'] or ''}",
            )
            for each in groups[:GROUPS]
        ]
    if numbers.dead_letters.value:
        return [Need("warn", f"{numbers.dead_letters} dead letters", "/dead")]
    return []
