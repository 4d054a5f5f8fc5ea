"""What a job waits for: its time, another job of its key, a signal or a child, the worker that owns its bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..explanation import Explanation, Reason
from ..facts import SILENT, Facts, InstanceFacts, JobFacts
from ..moments import NEVER, moment, span
from ..ring import owner_of
from .workers import can_run

QUIET = 12.0
"""Seconds without a heartbeat after which a worker that is still counted as live may be gone."""


def reasons(facts: Facts, job: JobFacts, head: Explanation | None) -> Iterator[Reason]:
    later = job.status == "pending" and job.available_at > facts.now
    if later and job.instance is not None and job.instance.waits:
        yield from _waits(facts, job, job.instance)
    elif later:
        yield _later(facts, job)
    if head is not None:
        yield Reason(
            "behind",
            f"it is behind job {head.id} of its key {job.key!r}: {head.answer.sentence}",
            head.answer.remedy,
            head.answer.until,
        )
    elif job.status == "blocked":
        yield Reason(
            "unblocks",
            "it is the next of its key; a worker, or the chore unblock, frees it within 10 s",
            "if it stays: holdfast runbook housekeeping",
        )
    if job.owned:
        yield from _owner(job)


def _later(facts: Facts, job: JobFacts) -> Reason:
    at, wait = job.available_at, span((job.available_at - facts.now).total_seconds())
    due = f"due at {moment(at)}, in {wait}"
    now = f"to run it now: holdfast job run-now {job.id}"
    if job.endpoint is not None and job.endpoint.failing_since is not None:
        return Reason(
            "breaker",
            f"its endpoint {job.endpoint.id} ({job.endpoint.url}) has accepted nothing since "
            f"{moment(job.endpoint.failing_since)}; it is tried again at {moment(at)}, in {wait}",
            f"holdfast endpoint attempts {job.endpoint.id}",
            at,
        )
    if job.generation == 0:
        return Reason("scheduled", f"it is scheduled: {due}", now, at)
    if job.failed_generation == job.generation or (job.failed_generation is None and job.attempts > 0):
        why = f" ({job.last_error})" if job.last_error else ""
        return Reason("retry", f"it waits for its retry after attempt {job.attempts} of {job.max_attempts}{why}: {due}",
                      now, at)  # fmt: skip
    return Reason("snoozed", f"it was snoozed: {due}", now, at)


def _waits(facts: Facts, job: JobFacts, instance: InstanceFacts) -> Iterator[Reason]:
    since = f"since {moment(instance.since)}"
    wake = instance.wake_at if instance.wake_at is not None and instance.wake_at.year < NEVER else None
    until = f", until {moment(wake)}" if wake is not None else ""
    for child in instance.dead_children:
        yield Reason(
            "child_dead",
            f"{instance.name} waits for job {child}, which is a dead letter",
            f"holdfast dead revive {child}, or: holdfast dead discard {child}",
        )
    signals = _named(instance, "signal")
    if signals:
        yield Reason(
            "waits_signal",
            f"{instance.name} waits for the signal {_or(signals)} {since}{until}",
            f"holdfast workflow signal {instance.name} {signals[0]}",
            wake,
        )
    if children := _named(instance, "child"):
        yield Reason(
            "waits_child",
            f"{instance.name} waits for its {'child' if len(children) == 1 else 'children'} {_or(children)} "
            f"{since}{until}",
            f"holdfast workflow show {instance.name}",
            wake,
        )
    if retries := _named(instance, "retry"):
        yield Reason(
            "waits_retry", f"{instance.name} waits to retry its step {_or(retries)} {since}{until}", until=wake
        )
    if timers := [name for name in _named(instance, "timer") if name not in signals]:
        yield Reason("waits_timer", f"{instance.name} sleeps in {_or(timers)} {since}{until}", until=wake)


def _named(instance: InstanceFacts, what: str) -> list[str]:
    return [wait.partition(":")[2] for wait in instance.waits if wait.startswith(f"{what}:")]


def _or(names: Sequence[str]) -> str:
    shown = [*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])]
    return " or ".join(shown)


def _owner(job: JobFacts) -> Iterator[Reason]:
    """The one worker that may claim it, if that is the reason why it waits."""
    members = {worker.id: worker for worker in job.workers if worker.live and worker.serves}
    name = owner_of(frozenset(members), job.bucket)
    if name is None:
        return  # there is no live worker, which was said
    owner = members[name]
    bucket = f"bucket {job.bucket} of queue {job.queue} belongs to worker {name}"
    if not can_run(owner, job):
        if any(can_run(worker, job) for worker in members.values()):
            yield Reason(
                "owner_cannot",
                f"{bucket}, which cannot run {job.kind} version {job.version}; other workers can, but do not own it",
                f"give all workers of an owned queue the same code, or drain this one: holdfast workers drain {name}",
            )
    elif owner.silent > QUIET:
        yield Reason(
            "owner_quiet",
            f"{bucket}, which was last seen {span(owner.silent)} ago; at {SILENT:.0f} s, another worker owns it",
        )
