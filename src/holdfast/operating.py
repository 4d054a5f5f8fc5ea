"""Operators' verbs of an installation: migrate, look at jobs, explain them, wait for them, cancel, revive and discard
them; pause and configure queues; drain workers; call the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from .calls import Calls
from .db.database import Database
from .definitions import OnFailure, skips
from .errors import NotFound
from .inbox import operating as jobs
from .lazy import LazyModule
from .model.durations import Duration, seconds
from .model.limits import check_flag, check_instant, check_int, check_name
from .ownership import members
from .queues import operating as queues
from .schema import migrate

if TYPE_CHECKING:
    from . import explaining
    from .doctor import running as doctor
    from .journal import reading as journal
    from .journal.story import Incident
    from .model.explanation import Explanation
    from .model.finding import Finding
    from .views import questions
    from .views.questions import DeadGroup, JobFilter, JobState
else:
    doctor = LazyModule("holdfast.doctor.running")
    explaining = LazyModule("holdfast.explaining")
    journal = LazyModule("holdfast.journal.reading")
    questions = LazyModule("holdfast.views.questions")

SKEW = timedelta(minutes=1)
"""The database's clock may be ahead of ours: what has just happened must not be missed."""
COUNTED = 1000
"""Dead letters of an error group that are counted."""


class OperatorVerbs:
    """What `Holdfast` inherits. Each verb awaits; its twin in `_sync` is for code that does not."""

    _calls: Calls

    @property
    def _database(self) -> Database:
        raise NotImplementedError

    async def migrate(self) -> list[str]:
        """Bring the schema to this release. Returns the names of what was applied.

        ```python
        applied = await hf.migrate()
        ```
        """
        return [applied.name for applied in await migrate.migrate(self._database)]

    def migrate_sync(self) -> list[str]:
        """As `migrate`, for code that does not await."""
        return self._calls.wait_for(self.migrate())

    async def job(self, id: UUID) -> JobState:
        """Where a job is now, and its result if it has completed. Ended jobs are kept as their task says (`keep`).

        ```python
        state = await hf.job(jobs[0].id)
        print(state.status, state.next)
        ```
        """
        row = await self._job_row(id)
        return questions.job_state(row, await self.explain(id))

    async def _job_row(self, id: UUID) -> dict[str, Any]:
        rows = await self._calls.run("views", "job", id)
        if not rows:
            raise NotFound(
                f"There is no job {id} in schema {self._database.schema}; ended jobs are kept for archive_days, or as "
                "their task says (keep)"
            )
        return dict(rows[0])

    def job_sync(self, id: UUID) -> JobState:
        """As `job`, for code that does not await."""
        return self._calls.wait_for(self.job(id))

    async def explain(self, id: UUID | str) -> Explanation:
        """Say why a job does not run, and what happens to it next. For a workflow: its job, or its instance's id.

        It never raises because of what it finds: an id that nobody knows is an explanation, too.

        ```python
        explanation = await hf.explain(jobs[0].id)
        print(explanation.answer.sentence)
        ```
        """
        return await explaining.explain(self._calls, self._database, id)

    def explain_sync(self, id: UUID | str) -> Explanation:
        """As `explain`, for code that does not await."""
        return self._calls.wait_for(self.explain(id))

    async def doctor(self, *checks: str) -> list[Finding]:
        """Examine the server and the installation: 21 checks, or those that are named. It changes nothing.

        What the role may not see is 'unseen', never 'ok': grant it pg_monitor.

        ```python
        for finding in await hf.doctor():
            print(finding.level, finding.name, finding.sentence)
        ```
        """
        return await doctor.examine(self._database, checks)

    def doctor_sync(self, *checks: str) -> list[Finding]:
        """As `doctor`, for code that does not await."""
        return self._calls.wait_for(self.doctor(*checks))

    async def result(self, id: UUID, timeout: Duration | None = None) -> Any:
        """Wait until a job ends, and return what its handler returned, decoded from JSON.

        Raises `JobFailed` if it did not complete, or is a dead letter; TimeoutError if it has not ended in time (None:
        wait as long as it takes); `NotFound` if its enqueue has not committed.

        ```python
        try:
            receipt = await hf.result(jobs[0].id, timeout="30s")
        except JobFailed as error:
            print(error)
        ```
        """
        return await self._calls.result(id, seconds(timeout, "timeout") if timeout is not None else None)

    def result_sync(self, id: UUID, timeout: Duration | None = None) -> Any:
        """As `result`, for code that does not await."""
        return self._calls.wait_for(self.result(id, timeout))

    async def cancel(self, id: UUID, reason: str = "cancelled") -> str:
        """Cancel a job. Returns 'cancelled' if it ended at once, 'processing' if its handler is being told to stop.

        Raises `NotFound` if it has ended, and `InvalidInput` if it is a dead letter: use `discard` for those.

        ```python
        job = await send_receipt.options(delay="1h").enqueue(4)
        assert await hf.cancel(job.id, "the order was withdrawn") == "cancelled"
        ```
        """
        return await jobs.cancel(self._calls, id, reason)

    def cancel_sync(self, id: UUID, reason: str = "cancelled") -> str:
        """As `cancel`, for code that does not await."""
        return self._calls.wait_for(self.cancel(id, reason))

    async def cancel_many(self, ids: Iterable[UUID], reason: str = "cancelled") -> dict[UUID, str]:
        """Cancel jobs. Returns the status of each that was cancelled, as `cancel` does.

        What is not in it had ended, or is a dead letter. Takes any number, in batches of 1,000; not all or none.

        ```python
        await hf.cancel_many(await hf.find_jobs(kind="send_receipt", waiting=True))
        ```
        """
        return await jobs.cancel_many(self._calls, ids, reason)

    def cancel_many_sync(self, ids: Iterable[UUID], reason: str = "cancelled") -> dict[UUID, str]:
        """As `cancel_many`, for code that does not await."""
        return self._calls.wait_for(self.cancel_many(ids, reason))

    async def run_now(self, ids: Iterable[UUID]) -> list[UUID]:
        """Make jobs due now that wait for their time or their retry. Returns their ids.

        ```python
        await hf.run_now(await hf.find_jobs(queue="mail", waiting=True))
        ```
        """
        return await jobs.run_now(self._calls, ids)

    def run_now_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `run_now`, for code that does not await."""
        return self._calls.wait_for(self.run_now(ids))

    async def discard(self, ids: Iterable[UUID]) -> list[UUID]:
        """Move dead letters to the archive as discarded, with their errors. Returns the ids that were discarded.

        ```python
        await hf.discard(await hf.find_jobs(status="dead_letter", error="CardExpired"))
        ```
        """
        return await jobs.discard(self._calls, ids)

    def discard_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `discard`, for code that does not await."""
        return self._calls.wait_for(self.discard(ids))

    async def find_jobs(self, **filters: Unpack[JobFilter]) -> list[UUID]:
        """The ids of live jobs that match every filter: for `cancel_many`, `run_now`, `discard` and `revive`.

        Filters: `status`, `queue`, `kind`, `error`, `group`, `since`, `waiting`, `limit`; see `JobFilter`.

        ```python
        ids = await hf.find_jobs(status="dead_letter", queue="mail", since="1d", limit=100)
        ```
        """
        return sorted(row[0] for row in await self._calls.run("views", "find", *questions.find_arguments(filters)))

    def find_jobs_sync(self, **filters: Unpack[JobFilter]) -> list[UUID]:
        """As `find_jobs`, for code that does not await."""
        return self._calls.wait_for(self.find_jobs(**filters))

    async def dead_groups(self, *, limit: int = 200) -> list[DeadGroup]:
        """Dead letters by error group, the group with the newest one first.

        At most `limit` groups are looked at, and a thousand dead letters of each are counted.

        ```python
        for alike in await hf.dead_groups():
            await hf.revive(await hf.find_jobs(status="dead_letter", group=alike.group))
        ```
        """
        rows = await self._calls.run("views", "dead_groups", check_int("limit", limit, 1, 10_000), COUNTED)
        return [questions.DeadGroup(**dict(row)) for row in rows]

    def dead_groups_sync(self, *, limit: int = 200) -> list[DeadGroup]:
        """As `dead_groups`, for code that does not await."""
        return self._calls.wait_for(self.dead_groups(limit=limit))

    async def revive(self, ids: Iterable[UUID]) -> list[UUID]:
        """Make dead letters pending again, with a full set of attempts. Returns the ids that were revived.

        ```python
        await hf.revive(await hf.find_jobs(status="dead_letter", kind="send_receipt"))
        ```
        """
        return await jobs.revive(self._calls, ids)

    def revive_sync(self, ids: Iterable[UUID]) -> list[UUID]:
        """As `revive`, for code that does not await."""
        return self._calls.wait_for(self.revive(ids))

    async def pause(self, queue: str) -> None:
        """Stop claiming from this queue. Running jobs finish.

        ```python
        await hf.pause("mail")
        ```
        """
        await queues.pause(self._calls, check_name("queue", queue))

    def pause_sync(self, queue: str) -> None:
        """As `pause`, for code that does not await."""
        self._calls.wait_for(self.pause(queue))

    async def resume(self, queue: str) -> None:
        """Claim from this queue again.

        ```python
        await hf.resume("mail")
        ```
        """
        await queues.resume(self._calls, check_name("queue", queue))

    def resume_sync(self, queue: str) -> None:
        """As `resume`, for code that does not await."""
        self._calls.wait_for(self.resume(queue))

    async def set_queue(
        self,
        queue: str,
        *,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        owned: bool | None = None,
    ) -> None:
        """Set how jobs of this queue run that are enqueued from now on; None: as before.

        `ordered`: one at a time and in order, per key, unless their task says otherwise; `on_failure`: see `task`.
        `owned`: each bucket of keys is claimed by one live worker, chosen by the ring, until the workers change.

        ```python
        await hf.set_queue("ledger", ordered=True, on_failure="block")
        ```
        """
        flags = (check_flag("ordered", ordered), skips(on_failure), check_flag("owned", owned))
        await queues.set_modes(self._calls, check_name("queue", queue), *flags)

    def set_queue_sync(
        self,
        queue: str,
        *,
        ordered: bool | None = None,
        on_failure: OnFailure | None = None,
        owned: bool | None = None,
    ) -> None:
        """As `set_queue`, for code that does not await."""
        self._calls.wait_for(self.set_queue(queue, ordered=ordered, on_failure=on_failure, owned=owned))

    async def drain_workers(self, workers: Sequence[str]) -> list[str]:
        """Ask these workers to finish running jobs, hand back the rest and stop. Returns those that were alive.

        Each notices within its heartbeat interval. An embedded worker stops claiming and waits for its block to end.

        ```python
        async with hf.worker() as worker:
            assert await hf.drain_workers([worker.name]) == [worker.name]
        ```
        """
        known = {row["id"] for row in await self._calls.run("views", "workers")}
        if unknown := sorted(set(workers) - known):
            raise NotFound(f"There is no worker {', '.join(unknown)}; see holdfast workers list. Nothing was drained")
        return await members.drain(self._calls, workers)

    def drain_workers_sync(self, workers: Sequence[str]) -> list[str]:
        """As `drain_workers`, for code that does not await."""
        return self._calls.wait_for(self.drain_workers(workers))

    async def incidents(
        self, *, since: datetime | Duration = "1d", until: datetime | None = None, limit: int = 1000
    ) -> list[Incident]:
        """What happened to this installation, and who did what to it, oldest first: the journal as a story.

        `since`: a time, or how long ago; `until`: now if left out. Of more than `limit` rows, the newest are read. Rows
        are kept for `journal_days`.

        ```python
        for incident in await hf.incidents(since="2h"):
            print(incident.at, incident.text)
        ```
        """
        now = datetime.now(UTC)
        begin = (
            check_instant("since", since)
            if isinstance(since, datetime)
            else now - timedelta(seconds=seconds(since, "since"))
        )
        end = check_instant("until", until) if until is not None else now + SKEW
        return await journal.incidents(self._calls, begin, end, check_int("limit", limit, 1, 100_000))

    def incidents_sync(
        self, *, since: datetime | Duration = "1d", until: datetime | None = None, limit: int = 1000
    ) -> list[Incident]:
        """As `incidents`, for code that does not await."""
        return self._calls.wait_for(self.incidents(since=since, until=until, limit=limit))
