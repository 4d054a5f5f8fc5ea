"""Which workers could run a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..explanation import Reason
from ..facts import JobFacts, WorkerFacts
from ..moments import span


def can_run(worker: WorkerFacts, job: JobFacts) -> bool:
    return worker.knows is not None and worker.knows[0] <= job.version <= worker.knows[1]


def no_worker(job: JobFacts) -> Iterator[Reason]:
    live = [worker for worker in job.workers if worker.live]
    serving = [worker for worker in live if worker.serves]
    knowing = [worker for worker in serving if worker.knows is not None]
    start = "start a worker: holdfast worker module:attribute"
    if not serving and (draining := [w for w in job.workers if w.draining and (w.serves or not live)]):
        names = ", ".join(worker.id for worker in draining[:3])
        yield Reason("all_draining", f"all workers of queue {job.queue} are draining ({names}): none claims", start)
    elif not live:
        yield Reason("no_worker", f"no worker is live{_last_seen(job.workers)}", start)
    elif not serving:
        yield Reason(
            "no_worker_on_queue",
            f"no live worker serves queue {job.queue}; {_count(live)} live, for other queues",
            f"holdfast worker module:attribute --queue {job.queue}",
        )
    elif not knowing:
        yield Reason(
            "no_worker_for_kind",
            f"no live worker of queue {job.queue} knows the kind {job.kind} ({_count(serving)} live)",
            "deploy workers whose code has this task (see holdfast stats: which application declared it); "
            "if it was renamed, give the new task this name",
        )
    elif not any(can_run(worker, job) for worker in knowing):
        known = ", ".join(sorted({_versions(worker.knows) for worker in knowing if worker.knows is not None}))
        yield Reason(
            "no_worker_for_version",
            f"no live worker of queue {job.queue} knows version {job.version} of {job.kind}; they know {known}",
            "deploy workers that know it: a producer is ahead of them, or they are ahead of this job",
        )


def _versions(known: tuple[int, int]) -> str:
    return f"version {known[0]}" if known[0] == known[1] else f"versions {known[0]} to {known[1]}"


def _count(workers: Sequence[WorkerFacts]) -> str:
    return f"{len(workers)} worker{'s are' if len(workers) != 1 else ' is'}"


def _last_seen(workers: Iterable[WorkerFacts]) -> str:
    quietest = min((worker for worker in workers if worker.status != "dead"), key=lambda w: w.silent, default=None)
    return f"; {quietest.id} was last seen {span(quietest.silent)} ago" if quietest is not None else ""
