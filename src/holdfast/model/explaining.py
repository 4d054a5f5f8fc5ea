"""Why a job does not run, and what happens next: a pure function of facts that were read in one trip.

`explain` lists reasons. The first is the answer; the others hold as well, and matter once the first is gone. They come
in this order: what nothing will change (it is unknown, or has ended), what happens to it now (it is processed), what
somebody must do (no worker, a pause), what it waits for (its time, another job, a signal), and that it is simply due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .explanation import Explanation, Reason
from .facts import SILENT, Facts, InstanceFacts, JobFacts, WorkerFacts
from .moments import NEVER, moment, span
from .ring import owner_of

QUIET = 12.0
"""Seconds without a heartbeat after which a worker that is still counted as live may be gone."""
LOCKED_AFTER = 60.0
"""Seconds after the end of a lease from which a sweep that ran since then has met a locked row."""
COUNTED = 1000
"""How many rows before it in its lane, and how many dead letters like it, are counted."""


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


# 1. What nothing will change


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


def _of_job(facts: Facts, job: JobFacts, head: Explanation | None) -> list[Reason]:
    match job.status:
        case "pending" | "blocked":
            reasons = [*_undoing(job), *_cannot(facts, job), *_not_yet(facts, job, head)]
            waits = any(reason.code != "undoing" for reason in reasons)
            return reasons if waits else [*_due(facts, job), *reasons]
        case "processing":
            return [*_processing(facts, job), *_undoing(job)]
        case "dead_letter":
            return [_dead_letter(job)]
        case _:
            return [_ended(job)]


def _ended(job: JobFacts) -> Reason:
    when = f" at {moment(job.finished_at)}" if job.finished_at is not None else ""
    why = f" ({job.last_error})" if job.last_error else ""
    who = f" by {job.ended_by}" if job.ended_by else ""
    on = f" on worker {job.claimed_by}" if job.claimed_by else ""
    match job.status:
        case "completed":
            return Reason("completed", f"it completed{when}{on}")
        case "failed":
            return Reason("failed", f"it failed for good{when}{on}{why}")
        case "expired":
            return Reason("expired", f"it expired{when}, before it started{why}")
        case "discarded":
            return Reason("discarded", f"it was discarded{when}{who}{why}")
        case "cancelled":
            return Reason("cancelled", f"it was cancelled{when}{who}{why}")
        case other:
            return Reason("ended", f"it ended{when} as {other}{why}")


def _dead_letter(job: JobFacts) -> Reason:
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
        f"fix the cause, then: {revive}; or throw it away: holdfast dead discard {job.id}",
    )


def _alike(job: JobFacts) -> str:
    if job.alike is None or job.alike < 2:
        return ""
    others = f"more than {COUNTED}" if job.alike > COUNTED else str(job.alike - 1)
    return f" ({others} other dead letter{'' if others == '1' else 's'} failed alike)"


# 2. What happens to it now


def _processing(facts: Facts, job: JobFacts) -> Iterator[Reason]:
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


def _undoing(job: JobFacts) -> Iterator[Reason]:
    if job.instance is not None and job.instance.undoing:
        when = f" at {moment(job.cancel_requested_at)}" if job.cancel_requested_at is not None else ""
        yield Reason("undoing", f"it was cancelled{when}, and its finished steps are being undone")


# 3. What somebody must do


def _cannot(facts: Facts, job: JobFacts) -> Iterator[Reason]:
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
        yield from _no_worker(job)


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


def _no_worker(job: JobFacts) -> Iterator[Reason]:
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
    elif not any(_runs(worker, job) for worker in knowing):
        known = ", ".join(sorted({_versions(worker.knows) for worker in knowing if worker.knows is not None}))
        yield Reason(
            "no_worker_for_version",
            f"no live worker of queue {job.queue} knows version {job.version} of {job.kind}; they know {known}",
            "deploy workers that know it: a producer is ahead of them, or they are ahead of this job",
        )


def _runs(worker: WorkerFacts, job: JobFacts) -> bool:
    return worker.knows is not None and worker.knows[0] <= job.version <= worker.knows[1]


def _versions(known: tuple[int, int]) -> str:
    return f"version {known[0]}" if known[0] == known[1] else f"versions {known[0]} to {known[1]}"


def _count(workers: Sequence[WorkerFacts]) -> str:
    return f"{len(workers)} worker{'s are' if len(workers) != 1 else ' is'}"


def _last_seen(workers: Iterable[WorkerFacts]) -> str:
    quietest = min((worker for worker in workers if worker.status != "dead"), key=lambda w: w.silent, default=None)
    return f"; {quietest.id} was last seen {span(quietest.silent)} ago" if quietest is not None else ""


# 4. What it waits for


def _not_yet(facts: Facts, job: JobFacts, head: Explanation | None) -> Iterator[Reason]:
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
            "unparks",
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
            f"its endpoint {job.endpoint.id} ({job.endpoint.url}) has taken nothing since "
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
    if not _runs(owner, job):
        if any(_runs(worker, job) for worker in members.values()):
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


# 5. It is due


def _due(facts: Facts, job: JobFacts) -> Iterator[Reason]:
    for_ = f"it has been due for {span(max((facts.now - job.available_at).total_seconds(), 0.0))}"
    able = [worker for worker in job.workers if worker.live and worker.serves and _runs(worker, job)]
    hands, running = sum(worker.hands for worker in able), sum(worker.running for worker in able)
    if job.owned:
        members = frozenset(worker.id for worker in job.workers if worker.live and worker.serves)
        for_ += f", in a bucket of worker {owner_of(members, job.bucket)}"
    if job.crashes:
        yield Reason(
            "alone",
            f"{for_}; it runs alone, in a process of its own, because its last attempt ended when its process died",
        )
    elif job.kind == "@deliver":
        yield _due_delivery(job, for_, able)
    elif hands and running >= hands:
        yield Reason(
            "hands_busy",
            f"{for_}; {_place(job)}, and all {hands} hands of the {_these(able)} are busy",
            "raise holdfast worker --concurrency or --processes, or start more workers",
        )
    else:
        yield Reason("due", f"{for_}; {_place(job)}, and {running} of {hands} hands are busy: the next claim takes it")


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
        return "its place is not known"
    if job.ahead == 0:
        return "it is the first of its lane"
    more = "more than " if job.ahead > COUNTED else ""
    return f"{more}{min(job.ahead, COUNTED):,} of its lane come first"


def _these(workers: Sequence[WorkerFacts]) -> str:
    return "one worker that can run it" if len(workers) == 1 else f"{len(workers)} workers that can run it"
