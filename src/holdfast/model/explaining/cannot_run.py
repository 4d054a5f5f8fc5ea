"""Why a job cannot run until somebody does something: a pause, an endpoint, no worker."""

from __future__ import annotations

from collections.abc import Iterator

from ..explanation import Reason
from ..facts import Facts, JobFacts
from ..moments import moment
from .workers import no_worker


def reasons(facts: Facts, job: JobFacts) -> Iterator[Reason]:
    if job.expires_at is not None and job.expires_at <= facts.now:
        yield Reason("has_expired", f"it expired at {moment(job.expires_at)}; the next claim, or housekeeping, ends it")
    if job.kind is None:
        yield Reason(
            "no_type",
            'its payload has no "type", so no handler can be found',
            f"holdfast job cancel {job.id}, and enqueue it with a type",
        )
    if job.attempts >= job.max_attempts:
        yield Reason("no_attempt_left", "it has no attempt left; housekeeping makes it a dead letter")
    if job.paused_at is not None:
        yield Reason(
            "paused",
            f"queue {job.queue} is paused since {moment(job.paused_at)}{_by(job.paused_by)}",
            f"holdfast queue resume {job.queue}",
        )
    yield from _held(job)
    instance = job.instance
    if instance is not None and instance.paused_at is not None:
        yield Reason(
            "instance_paused",
            f"{instance.name} is paused since {moment(instance.paused_at)}{_by(instance.paused_by)}",
            f"holdfast workflow resume {instance.name}",
        )
    if job.kind is not None and not job.queue.startswith("hold."):
        yield from no_worker(job)


def _by(who: str | None) -> str:
    return f", by {who}" if who else ""


def _held(job: JobFacts) -> Iterator[Reason]:
    """A delivery that waits aside, because of its endpoint or its route; or that will: one that ended an attempt just
    when its endpoint was paused or disabled is only put aside when it is due again."""
    endpoint = job.endpoint
    if endpoint is not None:
        where = f"its endpoint {endpoint.id} ({endpoint.url})"
        if endpoint.status == "paused":
            yield Reason("endpoint_paused", f"{where} is paused", f"holdfast endpoint resume {endpoint.id}")
        elif endpoint.status == "disabled":
            since = f" since {moment(endpoint.disabled_at)}" if endpoint.disabled_at is not None else ""
            why = f" ({endpoint.disabled_reason})" if endpoint.disabled_reason else ""
            yield Reason(
                "endpoint_disabled",
                f"{where} is disabled{since}{why}",
                f"when its owner has fixed it: holdfast endpoint enable {endpoint.id}",
            )
        elif endpoint.status is None and job.queue.startswith("hold."):
            yield Reason(
                "endpoint_gone", f"its endpoint {endpoint.id} does not exist any more", f"holdfast job cancel {job.id}"
            )
    if job.route is not None and job.route.removed_at is not None:
        yield Reason(
            "route_removed",
            f"its route {job.route.name} was removed at {moment(job.route.removed_at)}; what was published before is "
            "still delivered, if a worker has the route",
        )
