"""Why a job does not run, and what happens next: a pure function of facts that were read in one trip.

`explain` lists reasons. The first is the answer; the others hold as well, and matter once the first is gone. They come
in this order: what nothing will change (it is unknown, or has ended), what happens to it now (it is processed), what
somebody must do (no worker, a pause), what it waits for (its time, another job, a signal), and that it is simply due.

    ended.py        it has ended, or is a dead letter
    processing.py   it is processed, or its lease is over; it is undone
    cannot_run.py   it cannot run until somebody does something
    waiting.py      it waits
    due.py          it is due
    workers.py      which workers could run it
"""

from __future__ import annotations

from collections.abc import Iterator

from ..explanation import Explanation, Reason
from ..facts import Facts, JobFacts
from . import cannot_run, due, ended, processing, waiting


def explain(facts: Facts) -> Explanation:
    """Say why the job does not run, and what happens to it next."""
    head = _one(facts, facts.head, None) if facts.head is not None else None
    return _one(facts, facts.job, head)


def _one(facts: Facts, job: JobFacts | None, head: Explanation | None) -> Explanation:
    reasons = [*_schema(facts), *(_unknown(facts) if job is None else _of_job(facts, job, head))]
    if job is None:
        return Explanation(facts.asked, None, facts.now, tuple(reasons))
    asked = facts.asked if job is facts.job else str(job.id)
    return Explanation(asked, job.id, facts.now, tuple(reasons), job.kind, job.queue, job.status, head)


def _of_job(facts: Facts, job: JobFacts, head: Explanation | None) -> list[Reason]:
    match job.status:
        case "pending" | "blocked":
            reasons = [*processing.undoing(job), *cannot_run.reasons(facts, job), *waiting.reasons(facts, job, head)]
            waits = any(reason.code != "undoing" for reason in reasons)
            return reasons if waits else [*due.reasons(facts, job), *reasons]
        case "processing":
            return [*processing.reasons(facts, job), *processing.undoing(job)]
        case "dead_letter":
            return [ended.dead_letter(job)]
        case _:
            return [ended.reason(job)]


def _schema(facts: Facts) -> Iterator[Reason]:
    if facts.refused_version is not None:
        yield Reason(
            "schema_newer",
            f"the schema {facts.schema} is at version {facts.found_version}; this release works with "
            f"{facts.our_version}, and migration {facts.refused_version} is not compatible with it, so what follows "
            "may be wrong, and workers of this release do not start",
            "install a newer holdfast",
        )
    elif facts.found_version < facts.our_version:
        yield schema_older(facts.schema, facts.found_version, facts.our_version)


def schema_older(schema: str, found: int, ours: int) -> Reason:
    """The reason when the schema in the database is older than this release."""
    where = "" if schema == "holdfast" else f" --schema {schema}"
    is_at = f"is at version {found}" if found else "is missing"
    return Reason(
        "schema_older",
        f"the schema {schema} {is_at}; this release needs version {ours}, and its workers do not start without it",
        f"holdfast migrate{where}",
    )


def _unknown(facts: Facts) -> Iterator[Reason]:
    yield Reason(
        "unknown",
        f"there is no job or workflow instance {facts.asked} in schema {facts.schema}: its enqueue has not committed, "
        "it is in another database, or it ended so long ago that its row is gone (archive_days, keep)",
        "check the id and HOLDFAST_DATABASE_URL",
    )
