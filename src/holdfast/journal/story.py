"""Make a story of the journal: rows that belong together become one incident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

AGAIN = timedelta(seconds=60)
"""Within this time, the same thing done again belongs to the same incident: a bulk action, a deploy."""
OUTAGE = timedelta(seconds=5)
"""Within this time, outages that two hosts saw are one."""
BURST = timedelta(minutes=3)
"""Within this time, bursts of the same dead letters are one."""
LOOK_BACK = 5
"""Incidents of a kind that a row is compared with, beside the last one of its subject."""
JUMP, LEAST, BEFORE = 3.0, 1.0, 10
"""A jump: so many times the median of so many minutes before, and at least so many seconds."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened to the installation, or that somebody did to it.

    ```python
    for incident in await hf.incidents(since="2h"):
        print(incident.at, incident.text)
    ```
    """

    at: datetime
    """When it happened, or began."""
    until: datetime | None
    """When it was over, if it lasted and is over."""
    what: str
    """What: 'worker.died', 'queue.paused', 'database.away' and others; see docs/incidents.md."""
    subjects: tuple[str, ...]
    """The workers, queues, jobs and so on that it is about."""
    actor: str | None
    """Who did it; None: Holdfast itself, or nobody."""
    count: int
    """How often, or how many."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else is known, by name."""

    @property
    def subject(self) -> str:
        """The first of its subjects; '' if it has none."""
        return self.subjects[0] if self.subjects else ""

    @property
    def text(self) -> str:
        """It in words, in one line, without its time."""
        from .telling import tell

        return tell(self)


def story(entries: Iterable[Incident], pickups: Iterable[Mapping[str, Any]] = ()) -> list[Incident]:
    """The incidents of these rows of the journal, which are in the order of their times."""
    told: list[Incident] = []
    by_subject: dict[tuple[str, str], int] = {}
    by_what: dict[str, list[int]] = {}
    for entry in entries:
        near = [by_subject.get((what, entry.subject)) for what in (entry.what, _OVER.get(entry.what, ""))]
        for number in dict.fromkeys([*near, *reversed(by_what.get(entry.what, [])[-LOOK_BACK:])]):
            if number is None or _interrupted(told, number, entry):
                continue
            if (merged := _merged(told[number], entry)) is not None:
                told[number] = merged
                break
        else:
            by_what.setdefault(entry.what, []).append(len(told))
            by_subject[entry.what, entry.subject] = len(told)
            told.append(entry)
    return sorted([*told, *jumps(pickups)], key=lambda each: each.at)


def _interrupted(told: Sequence[Incident], number: int, entry: Incident) -> bool:
    """Has something else happened since? A worker that starts after a death is no part of the deploy before it."""
    if entry.what not in _DEPLOY or entry.subject in told[number].subjects:
        return False
    return any(each.what not in _DEPLOY for each in told[number + 1 :])


def _merged(earlier: Incident, later: Incident) -> Incident | None:
    """Both as one, if they belong together."""
    if (over := _OVER.get(later.what)) == earlier.what and over is not None:
        return _ended(earlier, later)
    if earlier.what != later.what:
        return None
    rule = _AGAIN.get(later.what)
    return rule(earlier, later) if rule is not None else None


_OVER = {
    "queue.resumed": "queue.paused",
    "schedule.resumed": "schedule.paused",
    "workflow.resumed": "workflow.paused",
    "endpoint.enabled": "endpoint.paused",
    "worker.present": "worker.absent",
    "demo.released": "demo.pinned",
}
"""What ends what."""


def _ended(earlier: Incident, later: Incident) -> Incident | None:
    if earlier.subjects != later.subjects or earlier.until is not None:
        return None
    details = dict(earlier.details)
    if later.actor != earlier.actor:
        details["ended_by"] = later.actor
    return replace(earlier, until=later.at, details=details)


def _outage(earlier: Incident, later: Incident) -> Incident | None:
    """The same outage, as another host saw it."""
    if later.at - (earlier.until or earlier.at) > OUTAGE:
        return None
    until = max(filter(None, (earlier.until, later.until)), default=None)
    subjects = (*earlier.subjects, *(each for each in later.subjects if each not in earlier.subjects))
    count = earlier.count if subjects == earlier.subjects else earlier.count + later.count
    return replace(earlier, until=until, count=count, subjects=subjects)


def _done_again(earlier: Incident, later: Incident) -> Incident | None:
    """The same verb of the same actor on the same thing, soon after: a part of a bulk action."""
    same = earlier.subjects == later.subjects and earlier.actor == later.actor
    if not same or later.at - (earlier.until or earlier.at) > AGAIN:
        return None
    return _sum(earlier, later)


def _others(earlier: Incident, later: Incident) -> Incident | None:
    """The same of several workers, as in a deploy. A row that was written twice counts once."""
    if later.subject and later.subject in earlier.subjects:
        return earlier
    if later.actor != earlier.actor or later.at - (earlier.until or earlier.at) > AGAIN / 6:
        return None
    if later.details != earlier.details:
        return None
    return replace(_sum(earlier, later), subjects=(*earlier.subjects, *later.subjects))


def _once(earlier: Incident, later: Incident) -> Incident | None:
    """It can happen to a worker once: a second row was written because the answer to the first was lost."""
    return earlier if later.subjects == earlier.subjects and later.subject else None


def _more(within: timedelta) -> Callable[[Incident, Incident], Incident | None]:
    def rule(earlier: Incident, later: Incident) -> Incident | None:
        if earlier.subjects != later.subjects or later.at - (earlier.until or earlier.at) > within:
            return None
        return _sum(earlier, later)

    return rule


_DEPLOY = ("worker.started", "worker.drained", "worker.told_to_drain")
_AGAIN: dict[str, Callable[[Incident, Incident], Incident | None]] = {
    "database.away": _outage,
    "worker.started": _others,
    "worker.drained": _others,
    "worker.told_to_drain": _others,
    "worker.died": _once,
    "worker.called_dead": _once,
    "jobs.swept": _more(timedelta(minutes=2)),
    "jobs.recovered": _more(timedelta(minutes=2)),
    "leases.lost": _more(timedelta(minutes=2)),
    "schedule.missed": _more(timedelta(minutes=2)),
    "dead_letters.burst": _more(BURST),
    "jobs.revived": _done_again,
    "jobs.discarded": _done_again,
    "jobs.cancelled": _done_again,
    "jobs.run_now": _done_again,
    "events.replayed": _done_again,
    "endpoint.recovered": _done_again,
    "endpoint.replayed": _done_again,
    "schema.migrated": _done_again,
}


def _sum(earlier: Incident, later: Incident) -> Incident:
    details = dict(earlier.details)
    for name, value in later.details.items():
        before = details.get(name)
        if isinstance(value, bool) or isinstance(before, bool):
            details[name] = value
        elif isinstance(value, (int, float)) and isinstance(before, (int, float)):
            details[name] = before + value
        elif isinstance(value, list) and isinstance(before, list):
            details[name] = [*before, *(each for each in value if each not in before)][:20]
        else:
            details[name] = value
    until = max(earlier.until or earlier.at, later.until or later.at)
    return replace(earlier, until=until, count=earlier.count + later.count, details=details)


def jumps(pickups: Iterable[Mapping[str, Any]]) -> list[Incident]:
    """Times when due jobs of a queue waited much longer for their claim than in the minutes before."""
    by_queue: dict[str, list[tuple[datetime, float]]] = {}
    for row in pickups:
        by_queue.setdefault(row["queue"], []).append((row["at"], float(row["mean"])))
    return [jump for queue, minutes in by_queue.items() for jump in _jumps(queue, minutes)]


def _jumps(queue: str, minutes: Sequence[tuple[datetime, float]]) -> list[Incident]:
    found: list[Incident] = []
    usual: list[float] = []
    current: Incident | None = None
    for at, mean in minutes:
        before = median(usual) if usual else None
        if before is not None and mean >= LEAST and mean > JUMP * before:
            if current is None:
                current = Incident(at, None, "queue.late", (queue,), None, 1, {"before": before, "worst": mean})
            else:
                worst = max(mean, current.details["worst"])
                current = replace(current, details={**current.details, "worst": worst})
            continue
        if current is not None:
            found.append(replace(current, until=at))
            current = None
        usual = [*usual, mean][-BEFORE:]
    return [*found, current] if current is not None else found
