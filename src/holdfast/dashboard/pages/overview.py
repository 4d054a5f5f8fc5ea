"""The first page: the three numbers now and over time, what happened meanwhile, and what needs somebody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.requests import Request

from ...journal.reading import incidents as told
from ...views import numbers
from ...views.numbers import Numbers, QueueNumbers
from ..desk import Desk, Route, get, whole, word
from ..live import State
from ..needs import needs
from .dead import found_groups
from .incidents import line

LONGEST = 14 * 24 * 60
"""Minutes of history that are kept."""
MOST_MARKS = 100
SHORT = 6 * 60
"""Minutes up to which the marks also name jumps of the claim age: over a longer time, the graph itself shows them."""
WHOLE = 60.0
"""Seconds: the rate of a minute that has just begun says nothing."""


async def look(desk: Desk) -> State:
    """Return the state that all viewers get, again and again."""
    current = await numbers.current(desk.reading)
    ((now,),) = await desk.reading.run("views", "now")
    paused = {each["name"]: each["paused_at"] for each in await desk.reading.run("views", "modes") if each["paused_at"]}
    return {
        "now": now,
        **_first(current),
        "needs": needs(
            current, paused, await found_groups(desk) if current.dead_letters.value else [], desk.examiner.soon()
        ),
        "queues": [_queue(each) for each in _by_trouble(current.queues)],
    }


def _first(current: Numbers) -> dict[str, Any]:
    worst = max(current.queues, key=lambda each: each.claim_age or 0.0, default=None)
    return {
        "age": round(current.age, 1),
        "depth": [current.depth.value, current.depth.exact],
        "claim_age": round(current.claim_age, 2),
        "claim_queue": worst.queue if worst is not None and worst.claim_age else None,
        "retry_rate": round(current.retry_rate, 4),
        "started": current.attempts.started,
        "throughput": round(current.throughput, 2),
        "processing": [current.processing.value, current.processing.exact],
        "dead": [current.dead_letters.value, current.dead_letters.exact],
        "run_p95": current.run_p95,
        "pickup_p95": current.pickup_p95,
        "lease_losses": current.attempts.lease_losses,
        "fenced": current.attempts.fenced,
        "outbox_lag": max(current.outbox_lag.values(), default=None),
        "workers": current.workers,
        "within": round(current.seconds),
    }


def _by_trouble(queues: list[QueueNumbers]) -> list[QueueNumbers]:
    """Those that wait the longest first: if the list is cut, it is cut where nothing happens."""
    return sorted(
        queues, key=lambda each: (not each.paused, -(each.claim_age or 0.0), -_jobs(each, "pending"), each.queue)
    )


def _queue(each: QueueNumbers) -> list[Any]:
    """One queue in few bytes: name, pending, running, dead, claim age, paused."""
    age = round(each.claim_age, 1) if each.claim_age is not None else None
    return [
        each.queue,
        _jobs(each, "pending"),
        _jobs(each, "processing"),
        _jobs(each, "dead_letters"),
        age,
        each.paused,
    ]


def _jobs(each: QueueNumbers, state: str) -> int:
    return each.jobs[state].value if state in each.jobs else 0


async def history(desk: Desk, request: Request) -> Any:
    """Return the columns of the graphs."""
    minutes = whole(request, "minutes", 60, LONGEST)
    about = word(request, "queue"), word(request, "kind")
    points = await numbers.history(desk.reading, minutes, *about)
    return {
        "at": [each.at.timestamp() for each in points],
        "depth": [each.depth for each in points],
        "claim_age": [each.claim_age for each in points],
        "retry_rate": [each.retry_rate for each in points],
        "throughput": [each.throughput if each.seconds >= WHOLE else None for each in points],
        "run_p95": [each.attempts.run.quantile(0.95) for each in points],
        "pickup_p95": [each.attempts.pickup.quantile(0.95) for each in points],
        "dead": [each.attempts.dead for each in points],
        "marks": await _marks(desk, minutes),
    }


async def _marks(desk: Desk, minutes: int) -> list[dict[str, Any]]:
    """What happened meanwhile, for the graphs."""
    ((now,),) = await desk.reading.run("views", "now")
    since, until = now - timedelta(minutes=minutes), now + timedelta(minutes=1)
    found = await told(desk.reading, since, until, MOST_MARKS, jumps=minutes <= SHORT)
    marks = [line(each) for each in found]
    return [
        {"at": each["at"].timestamp(), **{name: each[name] for name in ("time", "text", "level")}} for each in marks
    ]


ROUTES: list[Route] = [get("/history", history)]
