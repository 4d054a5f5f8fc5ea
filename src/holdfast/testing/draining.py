"""Run jobs until none is due: the claim, the runner and the endings of a worker, without its loops.

One job at a time, on connections that stay open until the application is closed: one for its own statements, and one
for handlers with `ctx.tx` or `ctx.once`. What a worker needs to run for days is left out: heartbeats, renewals,
wake-ups, housekeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec

from ..db.link import Link
from ..definitions import Runs
from ..errors import ConfigurationError, Contended, InvalidInput, JobFailed
from ..inbox import ending
from ..inbox.claim import Known
from ..inbox.claimer import Claimer
from ..instance_states import InstanceState
from ..kinds.declare import declare
from ..loading import import_tasks
from ..model.flow import AnyOutcome, FlowEnd, Parked
from ..model.job import Claim
from ..model.keep import Keep
from ..model.keys import BUCKETS
from ..model.limits import check_int, check_name
from ..model.occurrences import Occurrences, Subscriber
from ..model.outcome import AttemptFailed, Completed, Ended, HandedBack
from ..model.report import Report
from ..ownership import members
from ..worker.attempts import writing
from ..worker.attempts.deciding import barred, unstarted
from ..worker.engine import declared
from ..worker.leases.ledger import now
from ..worker.log_lines import LogLines
from ..worker.logs import mark_records
from .callers_thread import CallersThread, run_in_place
from .databases import check_once
from .drained import Drained, DrainLimit, Ran, ending_of
from .handlers import Handlers
from .sessions import SETTINGS, link

if TYPE_CHECKING:
    from ..app import Holdfast
    from ..workflows import Instance

Errors = Literal["raise", "retry"]
MOST = 1000
"""Attempts after which a drain without a limit ends with an error."""
DIED = "Died"
"""The error of an attempt whose worker has died (`die_at`)."""
FRUITLESS = 200
"""Polls in a row, 5 ms apart, that found only what other sessions have locked; then the drain goes on without it."""


async def drain(
    app: Holdfast, *, queues: Iterable[str] | None = None, errors: Errors = "raise", limit: int | None = None
) -> Drained:
    """Run jobs until none is due, also those that they enqueue. Delayed jobs and retries are not due yet.

    `errors`: by default the first error of a handler is raised, after its attempt was written as failed. With "retry",
    it is only written, and the drain continues. `Snooze`, `Fail` and `Retry` are endings, not errors. `queues`: only
    these; otherwise all. `limit`: the most attempts; without it, more than 1,000 raise `DrainLimit`.

    Jobs run one at a time: async handlers on this event loop, all others in a thread, those with `process=True` too.

    ```python
    from holdfast.testing import drain

    await send_receipt.enqueue(20)
    drained = await drain(hf)
    assert [ran.result for ran in drained.of(send_receipt)][-1] == "receipt 20"
    ```
    """
    work = _Drain(app, queues, errors, limit, None)
    drained = await work.run()
    if work.error is not None:
        raise work.error
    return drained


def drain_sync(
    app: Holdfast, *, queues: Iterable[str] | None = None, errors: Errors = "raise", limit: int | None = None
) -> Drained:
    """As `drain`, for code that does not await.

    Handlers that are not async run in the thread of the caller, so they share its thread-local connections. Async ones
    run on an event loop in another thread.
    """
    here = CallersThread()
    work = _Drain(app, queues, errors, limit, here)
    drained = run_in_place(app, here, work.run)
    if work.error is not None:
        raise work.error
    return drained


async def run_until_parked(app: Holdfast, instance: str | UUID | Instance[Any]) -> InstanceState:
    """Run jobs until none is due, as `drain`, and return where this workflow instance stands: it must wait.

    Raises AssertionError if it does not: it has ended, or is a dead letter.

    ```python
    from holdfast.testing import run_until_parked

    await checkout.options(id="checkout:21").start(order_id=21)
    where = await run_until_parked(hf, "checkout:21")
    assert where.waits == ("signal:shipped",)
    ```
    """
    await drain(app)
    return _parked(await app.instance(instance))


def run_until_parked_sync(app: Holdfast, instance: str | UUID | Instance[Any]) -> InstanceState:
    """As `run_until_parked`, for code that does not await."""
    drain_sync(app)
    return _parked(app.instance_sync(instance))


def _parked(state: InstanceState) -> InstanceState:
    if state.ended or not state.waits:
        why = f": {state.last_error}" if state.last_error else ""
        raise AssertionError(
            f"expected that {state.workflow} {state.id!r} waits, and {state.id!r} is {state.state}{why}"
        )
    return state


class _Drain(Subscriber):
    def __init__(
        self,
        app: Holdfast,
        queues: Iterable[str] | None,
        errors: Errors,
        limit: int | None,
        threads: Executor | None,
    ) -> None:
        if errors not in ("raise", "retry"):
            raise InvalidInput("errors", f"expected 'raise' or 'retry', got {errors!r}")
        if isinstance(queues, str):
            raise InvalidInput("queues", f"expected names, such as [{queues!r}], got one text")
        self._app = app
        self._queues = None if queues is None else {check_name("queue", queue) for queue in queues}
        self._raises = errors == "raise"
        self._limit = limit if limit is None else check_int("limit", limit, 1, 2**31 - 1)
        self._threads = threads
        self._name = members.new_name()
        self._occurrences = Occurrences(self, LogLines())
        self._ran: list[Ran] = []
        self._failures: dict[UUID, AttemptFailed] = {}
        """Of the attempt that runs: with its exception, which the outcome may no longer have."""
        self._link: Link
        self.error: BaseException | None = None
        """What is to be raised, here and not in `run`: an interrupt would end the event loop instead."""

    async def run(self) -> Drained:
        import_tasks(self._app)
        if not self._app.tasks:
            raise ConfigurationError("this application has no tasks; import the modules that register them, then drain")
        await check_once(self._app, "drain()")
        self._link = link(self._app)
        waiting = await self._waiting()
        if not waiting:
            return Drained((), 0)
        mark_records()
        async with Handlers(self._app, self._occurrences, self._threads, self._note_lifespan) as handlers:
            await declare(self._link, map(declared, handlers.definitions.values()))
            while waiting and await self._run_due(list(waiting), handlers):
                waiting = await self._waiting()
            if self._limit is not None:
                waiting = await self._waiting()
        return Drained(tuple(self._ran), sum(waiting.values()))

    async def _waiting(self) -> dict[str, int]:
        """How many jobs wait, by queue."""
        rows = await self._link.run("testing", "queues")
        return {queue: jobs for queue, jobs in rows if self._queues is None or queue in self._queues}

    async def _run_due(self, queues: list[str], handlers: Handlers) -> bool:
        """Run what is due in these queues. False if there was nothing, or no more may run.

        With a claimer of its own, which has passed no rows yet: the time may have been set back since the last one.
        """
        definitions = handlers.definitions
        known = Known({kind: (each.oldest, each.version) for kind, each in definitions.items()})
        ordered = any(each.ordered for each in definitions.values())
        claimer = Claimer(self._link, self._name, queues, known, SETTINGS.lease, ordered)
        ran = False
        while self._limit is None or len(self._ran) < self._limit:
            claim = await self._claim(claimer)
            if claim is None:
                return ran
            if self._limit is None and len(self._ran) >= MOST:
                await self._hand_back(claim)
                raise await self._endless()
            await self._attempt(claim, handlers)
            ran = True
            if claim.ordered:
                claimer.vacate(claim)
            if self.error is not None:
                return False
        return ran and self._limit is None

    async def _claim(self, claimer: Claimer) -> Claim | None:
        for _ in range(FRUITLESS):
            if claimer.vacated and (claims := await claimer.hand_over(self._link, 1)):
                return claims[0]
            busy = claimer.vacated > 0  # another session is just looking at these keys
            claimer.own(
                {queue: range(BUCKETS) for queue in claimer.owned}
            )  # no worker is registered, so no ring is asked
            batch = await claimer.claim(1)
            if batch.claims:
                return batch.claims[0]
            if batch.suspects and (suspect := await claimer.claim_suspect()) is not None:
                return suspect
            if not batch.more and not busy:
                return None
            await asyncio.sleep(0.005 if busy else 0)
        return None

    async def _attempt(self, claim: Claim, handlers: Handlers) -> None:
        """Run one attempt and write its ending, as a hand of a worker and its completer do."""
        self._failures.clear()
        try:
            outcome = await self._outcome(claim, handlers)
        except BaseException:
            await self._hand_back(claim)
            raise
        if (died := handlers.watch.died) is not None:  # the next run comes at once, without the sweep of its lease
            outcome = AttemptFailed(DIED, str(died), crashed=True, delay=0.0)
        if outcome is not None:
            self._occurrences.ended([(claim, outcome)], await self._write(claim, outcome, handlers.keep))
        failure = self._failures.get(claim.id)
        if died is not None:
            return
        if failure is not None and (self._raises or isinstance(failure.cause, KeyboardInterrupt)):
            self.error = self._raised(claim, failure)
        elif self._raises and isinstance(outcome, Parked) and any(each.startswith("retry:") for each in outcome.waits):
            self.error = _of_step(claim, outcome, handlers.watch.error)

    async def _write(self, claim: Claim, outcome: AnyOutcome, keep: Keep[Claim]) -> Report[Claim]:
        for _ in range(FRUITLESS):
            report = await writing.write(self._link, [(claim, outcome)], keep=keep)
            if not report.again:
                return report
            await asyncio.sleep(0.005)
        await self._hand_back(claim)
        raise Contended(
            f"the end of {claim.kind} {claim.id} could not be written: an open transaction has signalled the instance "
            "that waits for it. Commit that transaction before you drain"
        )

    async def _outcome(self, claim: Claim, handlers: Handlers) -> AnyOutcome | None:
        handlers.watch.reset()
        at = now()
        if claim.expires_in is not None:
            claim.start_by = at + int(claim.expires_in * 1e9)
        flow = handlers.definitions[claim.kind].runs is Runs.AS_FLOW
        if (why := barred(claim, flow, at)) is not None:
            return unstarted(why)
        return await handlers.run(claim)

    async def _hand_back(self, claim: Claim) -> None:
        await asyncio.shield(asyncio.ensure_future(ending.write(self._link, [(claim, HandedBack())])))

    def _raised(self, claim: Claim, failure: AttemptFailed) -> BaseException | None:
        if failure.error == "Retry" and failure.cause is None:
            return None  # the handler asked for it
        ran = self._ran[-1]
        then = "is a dead letter now" if ran.ending == "dead_letter" else "waits for its next attempt"
        note = f"Raised by {claim.kind} {claim.id}, attempt {claim.attempt} of {claim.max_attempts}. The job {then}."
        error = failure.cause
        if error is None:
            error = JobFailed(claim.id, ran.ending, failure.error, failure.message, claim.attempt)
        error.add_note(f'{note} To let attempts fail in a test, use drain(errors="retry").')
        return error

    async def _endless(self) -> DrainLimit:
        rows = await self._link.run("testing", "around", "")
        waiting = [f"{jobs} × {kind}" for kind, status, jobs in rows if status in ("pending", "blocked")]
        latest = ", ".join(ran.kind for ran in self._ran[-3:])
        return DrainLimit(
            f"drain() has run {MOST} attempts, and jobs are still due; expected that it comes to an end. Does a job "
            f"enqueue itself again? Waiting: {', '.join(waiting)}; the last ones that ran: {latest}. To run only "
            "some, or more, pass limit=…"
        )

    def _note_lifespan(self, error: BaseException) -> None:
        self.error = self.error or error

    # Occurrences

    def failed(self, claim: Claim, failure: AttemptFailed) -> None:
        self._failures[claim.id] = failure

    def ended(self, endings: Any, report: Report[Claim]) -> None:
        for claim, outcome in endings:  # one at a time, so the report is about this one
            how = ending_of(outcome, report)
            waits = outcome.waits if isinstance(outcome, Parked) else ()
            if isinstance(outcome, FlowEnd):
                outcome = outcome.end
            if isinstance(outcome, AttemptFailed) and outcome.error == DIED and how == "retried":
                how = "died"
            result = msgspec.json.decode(outcome.result) if isinstance(outcome, Completed) and outcome.result else None
            error = outcome.last_error() if isinstance(outcome, AttemptFailed | Ended) else None
            if report.dead:  # also what has snoozed too often
                error = report.dead[0][1]
            self._ran.append(
                Ran(claim.id, claim.kind, claim.queue, claim.key, claim.attempt, how, result, error, waits)
            )


def _of_step(claim: Claim, outcome: Parked, error: Exception | None) -> Exception | None:
    """The error of the step that waits for its next attempt; None if it asked to be run again."""
    if error is None:
        return None
    steps = ", ".join(each.removeprefix("retry:") for each in outcome.waits if each.startswith("retry:"))
    error.add_note(
        f"Raised by step {steps} of {claim.kind} {claim.id}. The step waits for its next attempt. To let attempts fail "
        'in a test, use drain(errors="retry").'
    )
    return error
