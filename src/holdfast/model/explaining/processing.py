"""What happens to a job now: a worker has claimed it."""

from __future__ import annotations

from collections.abc import Iterator

from ..explanation import Reason
from ..facts import SILENT, Facts, JobFacts
from ..moments import moment, span

LOCKED_AFTER = 60.0
"""Seconds after the end of a lease from which a sweep that ran since then has met a locked row."""


def reasons(facts: Facts, job: JobFacts) -> Iterator[Reason]:
    owner = next((worker for worker in job.workers if worker.id == job.claimed_by), None)
    seen = owner is not None and owner.status != "dead" and owner.silent < SILENT
    expires = job.lease_expires_at
    told = "; its handler was told to stop" if job.cancel_requested_at is not None else ""
    if expires is None or expires <= facts.now:
        yield from _lease_over(facts, job, (facts.now - expires).total_seconds() if expires is not None else 0.0)
    elif seen:
        since = f" since {moment(job.claimed_at)}" if job.claimed_at is not None else ""
        yield Reason(
            "runs",
            f"it runs on worker {job.claimed_by}{since} (attempt {job.attempts} of {job.max_attempts}); its lease "
            f"is renewed, and ends at {moment(expires)}{told}",
            until=None,
        )
    else:
        silent = f"not seen for {span(owner.silent)}" if owner is not None else "not in the registry"
        gone = "which has left" if owner is not None and owner.status == "dead" else f"which was {silent}"
        yield Reason(
            "owner_silent",
            f"it is held by worker {job.claimed_by}, {gone}; its lease ends at {moment(expires)}, in "
            f"{span((expires - facts.now).total_seconds())}, and then {_after_sweep(job)}{told}",
            "wait for the end of the lease; if you know that the worker is gone: docs/runbook/give-back.md",
            expires,
        )


def _after_sweep(job: JobFacts) -> str:
    if job.cancel_requested_at is not None:
        return "it ends as cancelled"
    return "it is retried" if job.attempts < job.max_attempts else "it becomes a dead letter"


def _lease_over(facts: Facts, job: JobFacts, over: float) -> Iterator[Reason]:
    swept = facts.sweep.ran_at
    last = f"the last sweep was {span((facts.now - swept).total_seconds())} ago" if swept else "nothing was ever swept"
    begin = f"its lease, of worker {job.claimed_by}, ended {span(over)} ago"
    if facts.sweep.error:
        yield Reason(
            "sweep_fails", f"{begin}, and the sweep fails: {facts.sweep.error}", "holdfast runbook housekeeping"
        )
    elif not any(worker.live or worker.draining for worker in job.workers):
        yield Reason(
            "nobody_sweeps",
            f"{begin}, and no live worker is there to sweep it ({last})",
            "start a worker: holdfast worker module:attribute",
        )
    elif over > LOCKED_AFTER and swept is not None and (facts.now - swept).total_seconds() < over - LOCKED_AFTER / 2:
        yield Reason(
            "row_locked",
            f"{begin}; {last}, and passed it by: a session locks the row",
            "find the session and end it: holdfast runbook expired-leases",
        )
    else:
        yield Reason("lease_over", f"{begin}; {last}. The next sweep takes it, and {_after_sweep(job)}")


def undoing(job: JobFacts) -> Iterator[Reason]:
    if job.instance is not None and job.instance.undoing:
        when = f" at {moment(job.cancel_requested_at)}" if job.cancel_requested_at is not None else ""
        yield Reason("undoing", f"it was cancelled{when}, and its finished steps are being undone")
