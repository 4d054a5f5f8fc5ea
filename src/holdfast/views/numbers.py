"""The numbers: how much waits and for how long, and what attempts did. Read from gauges and minutes, never counted.

    current(runner)                    what to show first: depth, claim age, retry rate, and the rest
    history(runner, minutes=60)        the same over time, for graphs
    gauges(runner)                     every gauge, for `/metrics`

`runner` is anything that runs our statements: `hf._calls`, a link, or a connection behind `db.runner.Runner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ..db.runner import Runner
from ..model.numbers import COUNTS, STALE, Attempts, Count, Gauge, Histogram, by_queue, count_of

WITHIN = 300.0
"""Seconds of attempts that the current numbers are about."""
STEPS = (60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
"""Lengths of the steps of a history, in seconds."""
MOST_STEPS = 200

By = Literal["", "queue", "kind"]
"""One line for all, one for each queue, or one for each queue and kind."""


@dataclass(frozen=True, slots=True)
class Point:
    """What attempts did, and what waited, in a step of time."""

    at: datetime
    """When the step began."""
    seconds: float
    """How long it is; of the last one, how much of it has passed."""
    queue: str
    kind: str
    attempts: Attempts
    depth: int | None = None
    """The most jobs that were pending; None: not measured, or of one kind."""
    claim_age: float | None = None
    """The longest that due work had waited, in seconds."""

    @property
    def throughput(self) -> float:
        """Attempts that ended, per second."""
        return self.attempts.ended / self.seconds if self.seconds > 0 else 0.0

    @property
    def retry_rate(self) -> float:
        return self.attempts.retry_rate


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """The numbers of one queue."""

    queue: str
    jobs: Mapping[str, Count] = field(default_factory=dict)
    """By state: pending, due, scheduled, sleeping, retrying, processing, blocked, dead_letters."""
    claim_age: float | None = None
    """Seconds; None: nothing is due."""
    paused: bool = False
    lately: Point | None = None
    """What its attempts did in the last minutes; None: nothing."""
    unclaimable: Mapping[str, Count] = field(default_factory=dict)
    """Jobs that no live worker can run, by kind."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of an installation. The first three tell whether it is well."""

    depth: Count
    """Jobs that are pending."""
    claim_age: float
    """How long the oldest due job has waited, in seconds."""
    retry_rate: float
    """The share of attempts that failed, in the last minutes."""
    age: float
    """Seconds since the gauges were measured."""
    processing: Count
    dead_letters: Count
    throughput: float
    """Attempts that ended, per second, in the last minutes."""
    run_p50: float | None
    run_p95: float | None
    pickup_p50: float | None
    pickup_p95: float | None
    """Seconds; None: there was no attempt."""
    attempts: Attempts
    """Of the last minutes: also lease losses, fenced writes and reconnects."""
    seconds: float
    """How long "the last minutes" are."""
    outbox_lag: Mapping[str, float]
    """Seconds that the oldest event has waited for its delivery, by route."""
    workers: Mapping[str, int]
    """By status: alive, draining, silent, dead."""
    queues: list[QueueNumbers]
    gauges: list[Gauge]


async def gauges(runner: Runner) -> list[Gauge]:
    """Return every gauge. `gauges_age` says how old the stored ones are; if nobody measures, they are measured now."""
    rows = await runner.run("views", "gauges", STALE)
    return [Gauge(row["name"], row["value"], row["queue"], row["kind"], row["label"], row["exact"]) for row in rows]


async def history(
    runner: Runner,
    minutes: float = 60,
    queue: str | None = None,
    kind: str | None = None,
    by: By = "",
    step: float | None = None,
) -> list[Point]:
    """Return what attempts did and what waited in the last `minutes`, oldest first.

    Steps without anything are left out. Minutes are kept for two days, then ten minutes at a time, for two weeks.
    `step` is in seconds; by default the shortest with which there are at most 200 steps.
    """
    back = minutes * 60
    step = step or next((each for each in STEPS if back / each <= MOST_STEPS), STEPS[-1])
    return [_point(dict(row)) for row in await runner.run("views", "minutes", back, step, queue, kind, by)]


async def lately(runner: Runner, by: By = "", seconds: float = WITHIN) -> list[Point]:
    """Return what attempts did in the last `seconds`, as one point for all, for each queue, or for each kind."""
    return [_point(dict(row)) for row in await runner.run("views", "minutes", seconds, 0.0, None, None, by)]


async def current(runner: Runner) -> Numbers:
    """Return the current numbers."""
    found = await gauges(runner)
    whole = await lately(runner)
    of_queues = {point.queue: point for point in await lately(runner, by="queue")}
    return _numbers(found, whole[0] if whole else None, of_queues)


def _numbers(found: list[Gauge], whole: Point | None, of_queues: Mapping[str, Point]) -> Numbers:
    attempts = whole.attempts if whole is not None else Attempts()
    jobs, ages, lacking = (by_queue(found, name) for name in ("jobs", "claim_age", "unclaimable"))
    paused = {queue for queue, (gauge,) in by_queue(found, "queue_paused").items() if gauge.value}
    names = sorted({*jobs, *ages, *lacking, *by_queue(found, "queue_paused"), *of_queues} - {""})
    states = {state: count_of(g for g in found if g.name == "jobs" and g.label == state) for state in STATES}
    return Numbers(
        depth=states["pending"],
        claim_age=max((gauge.value for gauge in found if gauge.name == "claim_age"), default=0.0),
        retry_rate=attempts.retry_rate,
        age=next((gauge.value for gauge in found if gauge.name == "gauges_age"), 0.0),
        processing=states["processing"],
        dead_letters=states["dead_letters"],
        throughput=whole.throughput if whole is not None else 0.0,
        run_p50=attempts.run.quantile(0.5),
        run_p95=attempts.run.quantile(0.95),
        pickup_p50=attempts.pickup.quantile(0.5),
        pickup_p95=attempts.pickup.quantile(0.95),
        attempts=attempts,
        seconds=whole.seconds if whole is not None else WITHIN,
        outbox_lag={gauge.label: gauge.value for gauge in found if gauge.name == "outbox_lag"},
        workers={gauge.label: int(gauge.value) for gauge in found if gauge.name == "workers"},
        queues=[
            QueueNumbers(
                queue=name,
                jobs={gauge.label: count_of([gauge]) for gauge in jobs.get(name, ())},
                claim_age=ages[name][0].value if name in ages else None,
                paused=name in paused,
                lately=of_queues.get(name),
                unclaimable={gauge.kind: count_of([gauge]) for gauge in lacking.get(name, ())},
            )
            for name in names
        ],
        gauges=found,
    )


STATES = ("pending", "due", "scheduled", "sleeping", "retrying", "processing", "blocked", "dead_letters")
"""Of jobs, as they are counted. One job can be in several: a due one is pending, too."""


def _point(row: Mapping[str, Any]) -> Point:
    attempts = Attempts(
        **{name: row[name] for name in COUNTS},
        run=_histogram(row["run"], row["run_sum"]),
        pickup=_histogram(row["pickup"], row["pickup_sum"]),
    )
    return Point(
        row["at"], max(row["seconds"], 0.0), row["queue"], row["kind"], attempts, row["depth"], row["claim_age"]
    )


def _histogram(sums: list[float | None], total: float) -> Histogram:
    """From the sums of the buckets; None: no row has that bucket."""
    return Histogram([int(each or 0) for each in sums], total)
