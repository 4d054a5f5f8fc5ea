"""A job that is due, and that a worker could claim: what comes before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..explanation import Reason
from ..facts import COUNTED, Facts, JobFacts, WorkerFacts
from ..moments import span
from ..ring import owner_of
from .workers import can_run


def reasons(facts: Facts, job: JobFacts) -> Iterator[Reason]:
    for_ = f"it has been due for {span(max((facts.now - job.available_at).total_seconds(), 0.0))}"
    able = [worker for worker in job.workers if worker.live and worker.serves and can_run(worker, job)]
    hands, running = sum(worker.hands for worker in able), sum(worker.running for worker in able)
    if job.owned:
        members = frozenset(worker.id for worker in job.workers if worker.live and worker.serves)
        for_ += f", in a bucket of worker {owner_of(members, job.bucket)}"
    if job.crashes:
        yield Reason(
            "isolation",
            f"{for_}; it runs in isolation, in a process of its own, because its last attempt ended when its process "
            "died",
        )
    elif job.kind == "@deliver":
        yield _due_delivery(job, for_, able)
    elif hands and running >= hands:
        yield Reason(
            "hands_busy",
            f"{for_}; {_place(job)}, and {_slots(hands, able)} in use",
            "raise holdfast worker --concurrency or --processes, or start more workers",
        )
    else:
        yield Reason(
            "due", f"{for_}; {_place(job)}, and {running} of {hands} handler slots are in use: the next claim takes it"
        )


def _due_delivery(job: JobFacts, for_: str, able: Sequence[WorkerFacts]) -> Reason:
    away = [worker for worker in able if worker.away]
    route = job.route.name if job.route is not None else job.queue.removeprefix("out.")
    destination = f" ({job.route.destination})" if job.route is not None and job.route.destination else ""
    if away and len(away) == len(able):
        return Reason(
            "destination_away",
            f"{for_}; worker {away[0].id} cannot reach the destination of route {route}{destination}. It costs no "
            "attempt",
            f"see the worker's log: route {route}: … cannot be reached; then holdfast runbook route-stuck",
        )
    return Reason("due", f"{for_}; {_place(job)}: the next claim of route {route}{destination} takes it")


def _place(job: JobFacts) -> str:
    if job.ahead is None:
        return "its place in the queue is not known"
    if job.ahead == 0:
        return "it is next in its queue, at its priority"
    more = "more than " if job.ahead > COUNTED else ""
    jobs = "1 job of its priority is" if job.ahead == 1 else f"{min(job.ahead, COUNTED):,} jobs of its priority are"
    return f"{more}{jobs} ahead of it"


def _slots(hands: int, workers: Sequence[WorkerFacts]) -> str:
    which = "the only handler slot" if hands == 1 else f"all {hands} handler slots"
    return f"{which} of the {_these(workers)} {'is' if hands == 1 else 'are'}"


def _these(workers: Sequence[WorkerFacts]) -> str:
    return "one worker that can run it" if len(workers) == 1 else f"{len(workers)} workers that can run it"
