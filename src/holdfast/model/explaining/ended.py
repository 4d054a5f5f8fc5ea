"""What became of a job that nothing will change by itself: it has ended, or it is a dead letter."""

from __future__ import annotations

from ..explanation import Reason
from ..facts import COUNTED, JobFacts
from ..moments import moment


def reason(job: JobFacts) -> Reason:
    when = f" at {moment(job.finished_at)}" if job.finished_at is not None else ""
    why = f" ({job.last_error})" if job.last_error else ""
    who = f" by {job.ended_by}" if job.ended_by else ""
    on = f" on worker {job.claimed_by}" if job.claimed_by else ""
    match job.status:
        case "completed":
            return Reason("completed", f"it completed{when}{on}")
        case "failed":
            return Reason("failed", f"it failed permanently{when}{on}{why}")
        case "expired":
            return Reason("expired", f"it expired{when}, before it started{why}")
        case "discarded":
            return Reason("discarded", f"it was discarded{when}{who}{why}")
        case "cancelled":
            return Reason("cancelled", f"it was cancelled{when}{who}{why}")
        case other:
            return Reason("ended", f"it ended{when} as {other}{why}")


def dead_letter(job: JobFacts) -> Reason:
    since = f" since {moment(job.finished_at)}" if job.finished_at is not None else ""
    why = f": {job.last_error}" if job.last_error else ""
    if job.instance is not None and job.instance.state == "needs attention":
        return Reason(
            "needs_attention",
            f"it waits for you{since}: the code does not fit the history of {job.instance.name}{why}",
            "deploy code that fits (holdfast workflow show has the difference), then: "
            f"holdfast workflow resume {job.instance.name}",
        )
    revive = (
        f"holdfast workflow resume {job.instance.name}"
        if job.instance is not None
        else f"holdfast dead revive {job.id}"
    )
    return Reason(
        "dead_letter",
        f"it is a dead letter{since}, after {job.attempts} of {job.max_attempts} attempts{_alike(job)}{why}",
        f"fix the cause, then: {revive}; or discard it: holdfast dead discard {job.id}",
    )


def _alike(job: JobFacts) -> str:
    if job.alike is None or job.alike < 2:
        return ""
    others = f"more than {COUNTED}" if job.alike > COUNTED else str(job.alike - 1)
    return f" ({others} other dead letter{' has' if others == '1' else 's have'} the same error)"
