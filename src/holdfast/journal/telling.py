"""Incidents in words, for people who read them at night."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from .story import Incident

FEW = 3
"""Subjects that a line names."""


def tell(incident: Incident) -> str:
    """An incident in one line."""
    words = _WORDS.get(incident.what)
    if words is None:  # of a newer release, or of somebody's own
        who = f"{incident.actor}: " if incident.actor else ""
        many = f" ({incident.count})" if incident.count != 1 else ""
        return f"{who}{incident.what} {_named(incident)}{many}".rstrip()
    return words(incident)


def clock(at: datetime) -> str:
    """The time of day."""
    return f"{at:%H:%M:%S}"


def _named(incident: Incident) -> str:
    shown = ", ".join(each for each in incident.subjects[:FEW] if each)
    more = len(incident.subjects) - FEW
    return f"{shown} and {more} more" if more > 0 else shown


def _folded(incident: Incident, one: str, many: str) -> str | None:
    """For what came too fast to be noted one by one."""
    return f"{incident.count} {one if incident.count == 1 else many}" if incident.details.get("folded") else None


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _became(details: dict[str, Any]) -> str:
    parts = [f"{details[name]} {name}" for name in ("retried", "dead", "ended") if details.get(name)]
    return f": {', '.join(parts)}" if parts else ""


def _until(incident: Incident) -> str:
    if incident.until is None:
        return ""
    day = "" if incident.until.date() == incident.at.date() else f"{incident.until:%Y-%m-%d} "
    by = f" ({incident.details['ended_by']})" if incident.details.get("ended_by") else ""
    return f" until {day}{clock(incident.until)}{by}"


def _workers(verb: str) -> Callable[[Incident], str]:
    def words(incident: Incident) -> str:
        if folded := _folded(incident, f"more worker {verb}", f"more workers {verb}"):
            return folded
        if len(incident.subjects) == 1:
            return f"worker {incident.subject} {verb}"
        return f"{len(incident.subjects)} workers {verb}: {_named(incident)}"

    return words


def _died(incident: Incident) -> str:
    if folded := _folded(incident, "more worker died", "more workers died"):
        return folded
    held = incident.details.get("held", 0)
    holding = f"; it held {_jobs(held)}" if held else "; it held nothing"
    return f"worker {incident.subject} died ({incident.details.get('how', 'unknown')}){holding}"


def _failed(incident: Incident) -> str:
    return f"worker {incident.subject} cannot continue: {incident.details.get('error', 'an error of its own')}"


def _called_dead(incident: Incident) -> str:
    silence = incident.details.get("silence", 0)
    return f"worker {incident.subject} sent no heartbeat for {silence:g} s and was marked as dead"


def _absent(incident: Incident) -> str:
    return f"worker {incident.subject} did not run{_until(incident)}; others got its buckets"


def _present(incident: Incident) -> str:
    return f"worker {incident.subject} runs again"


def _away(incident: Incident) -> str:
    lasted = f" for {(incident.until - incident.at).total_seconds():.1f} s" if incident.until is not None else ""
    return f"database away{lasted}, seen by {incident.count}"


def _swept(incident: Incident) -> str:
    of = f" of {incident.subject}" if incident.subject else ""
    return f"{_jobs(incident.count)}{of} swept{_became(incident.details)}"


def _recovered(incident: Incident) -> str:
    of = f" of {incident.subject}" if incident.subject else ""
    return f"{_jobs(incident.count)}{of} had started{_became(incident.details)}"


def _leases(incident: Incident) -> str:
    leases = "the lease of 1 job" if incident.count == 1 else f"the leases of {incident.count:,} jobs"
    return f"worker {incident.subject} lost {leases}" if incident.subject else f"{leases} lost"


def _overdue(incident: Incident) -> str:
    killed = "its process was killed" if incident.details.get("killed") else "its lease expires"
    return f"job {incident.subject} was over its timeout and did not stop; {killed}"


def _missed(incident: Incident) -> str:
    slots = "1 slot" if incident.count == 1 else f"{incident.count:,} slots"
    return f"schedule {incident.subject}: {slots} missed and skipped"


def _burst(incident: Incident) -> str:
    details = incident.details
    where = f" in {details['place']}" if details.get("place") else f" in {details.get('kind', 'unknown')}"
    least = "at least " if details.get("more") else ""
    error = details.get("error") or "unknown"
    return f"{details.get('queue', '')}: {least}{incident.count:,} dead letters, {error}{where}"


def _late(incident: Incident) -> str:
    before, worst = incident.details["before"], incident.details["worst"]
    return f"{incident.subject}: claim age {before:.1f} → {worst:.1f} s{_until(incident)}"


def _did(verb: str) -> Callable[[Incident], str]:
    """Somebody did something to one thing, perhaps for a while."""

    def words(incident: Incident) -> str:
        return f"{incident.actor or 'Holdfast'} {verb} {_named(incident)}{_until(incident)}"

    return words


def _did_to_jobs(verb: str) -> Callable[[Incident], str]:
    def words(incident: Incident) -> str:
        where = f" of {incident.subject}" if incident.subject else ""
        kinds = incident.details.get("kinds") or []
        which = f" ({', '.join(kinds[:FEW])})" if kinds else ""
        return f"{incident.actor} {verb} {_jobs(incident.count)}{where}{which}"

    return words


def _set(incident: Incident) -> str:
    modes = [name for name in ("ordered", "skips", "owned") if incident.details.get(name)]
    return f"{incident.actor} set queue {incident.subject} to {', '.join(modes) or 'free'}"


def _endpoint(verb: str) -> Callable[[Incident], str]:
    def words(incident: Incident) -> str:
        reason = incident.details.get("reason")
        why = f": {reason}" if reason else ""
        shown = incident.details.get("url") or incident.subject
        return f"{incident.actor or 'Holdfast'} {verb} endpoint {shown}{_until(incident)}{why}"

    return words


def _recovered_endpoint(incident: Incident) -> str:
    return f"{incident.actor} had {incident.count:,} events sent to endpoint {incident.subject} again"


def _replayed_endpoint(incident: Incident) -> str:
    return f"{incident.actor} replayed {incident.count:,} events to endpoint {incident.subject}"


def _replayed(incident: Incident) -> str:
    return f"{incident.actor} replayed {incident.count:,} events along {incident.subject}"


def _restarted(incident: Incident) -> str:
    return f"{incident.actor} restarted workflow {incident.subject} from {incident.details.get('step', 'a step')}"


def _signalled(incident: Incident) -> str:
    return f"{incident.actor} sent signal {incident.details.get('signal', '')} to workflow {incident.subject}"


def _cancelled(incident: Incident) -> str:
    reason = incident.details.get("reason")
    return f"{incident.actor} cancelled job {incident.subject}{f': {reason}' if reason else ''}"


def _migrated(incident: Incident) -> str:
    return f"{incident.actor} migrated the schema to version {incident.subject}"


_WORDS: dict[str, Callable[[Incident], str]] = {
    "worker.started": _workers("started"),
    "worker.drained": _workers("drained"),
    "worker.died": _died,
    "worker.failed": _failed,
    "worker.called_dead": _called_dead,
    "worker.absent": _absent,
    "worker.present": _present,
    "worker.told_to_drain": _did("told to drain"),
    "database.away": _away,
    "jobs.swept": _swept,
    "jobs.recovered": _recovered,
    "leases.lost": _leases,
    "handler.overdue": _overdue,
    "schedule.missed": _missed,
    "dead_letters.burst": _burst,
    "queue.late": _late,
    "queue.paused": _did("paused"),
    "queue.resumed": _did("resumed"),
    "queue.set": _set,
    "jobs.revived": _did_to_jobs("revived"),
    "jobs.discarded": _did_to_jobs("discarded"),
    "jobs.cancelled": _did_to_jobs("cancelled"),
    "jobs.run_now": _did_to_jobs("made due"),
    "job.cancelled": _cancelled,
    "schedule.paused": _did("paused schedule"),
    "schedule.resumed": _did("resumed schedule"),
    "schedule.reset": _did("reset schedule"),
    "schedule.triggered": _did("triggered schedule"),
    "schedule.put": _did("put schedule"),
    "schedule.removed": _did("removed schedule"),
    "endpoint.added": _endpoint("added"),
    "endpoint.paused": _endpoint("paused"),
    "endpoint.enabled": _endpoint("enabled"),
    "endpoint.disabled": _endpoint("disabled"),
    "endpoint.rotated": _endpoint("rotated the secret of"),
    "endpoint.recovered": _recovered_endpoint,
    "endpoint.replayed": _replayed_endpoint,
    "events.replayed": _replayed,
    "route.removed": _did("removed route"),
    "workflow.paused": _did("paused workflow"),
    "workflow.resumed": _did("resumed workflow"),
    "workflow.restarted": _restarted,
    "workflow.signalled": _signalled,
    "schema.migrated": _migrated,
    "demo.killed": _did("killed"),
    "demo.added": _did("added"),
    "demo.drained": _did("drained"),
    "demo.pinned": _did("pinned"),
    "demo.released": _did("released"),
}
"""Every kind that this release writes: `tests/journal` compares them."""
