"""A job that was enqueued, as its producer knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from .errors import ConfigurationError, NotFound
from .model.durations import Duration

if TYPE_CHECKING:
    from .operating import OperatorVerbs
    from .views.questions import JobState


class Job:
    """What `enqueue` returns: the job's id, and ways to ask about it.

    ```python
    job = await send_receipt.enqueue(order_id=11)
    print(job.id)
    ```
    """

    __slots__ = ("_app", "_id", "_kept", "existed", "replaced")

    def __init__(
        self, app: OperatorVerbs, id: UUID, existed: bool = False, replaced: bool = False, kept: bool = True
    ) -> None:
        self._app = app
        self._kept = kept
        self._id = id
        self.existed = existed
        """True if this idempotency key, id or unique job was there before: nothing was added."""
        self.replaced = replaced
        """True if a job that waited has got these arguments (see `replace`)."""

    @property
    def id(self) -> UUID:
        """The id of the job."""
        return self._id

    async def state(self) -> JobState:
        """Where the job is now, and its result if it has completed.

        Raises `NotFound` until its enqueue commits, and, if its task has keep=None, once it has completed.

        ```python
        print((await job.state()).next)
        ```
        """
        try:
            return await self._app.job(self._id)
        except NotFound as unknown:
            raise self._gone(unknown) from None

    def state_sync(self) -> JobState:
        """As `state`, for code that does not await."""
        try:
            return self._app.job_sync(self._id)
        except NotFound as unknown:
            raise self._gone(unknown) from None

    async def result(self, timeout: Duration | None = None) -> Any:
        """Wait until the job ends, and return what its handler returned: see `Holdfast.result`.

        ```python
        async with hf.worker():
            assert await job.result(timeout="10s") == "receipt 11"
        ```
        """
        self._check_kept()
        return await self._app.result(self._id, timeout)

    def result_sync(self, timeout: Duration | None = None) -> Any:
        """As `result`, for code that does not await."""
        self._check_kept()
        return self._app.result_sync(self._id, timeout)

    async def status(self) -> str:
        """'pending', 'processing', 'completed' …: the status alone costs less than the whole `state`.

        ```python
        assert await job.status() == "completed"
        ```
        """
        try:
            return str((await self._app._job_row(self._id))["status"])
        except NotFound as unknown:
            raise self._gone(unknown) from None

    def status_sync(self) -> str:
        """As `status`, for code that does not await."""
        return self._app._calls.wait_for(self.status())

    def _check_kept(self) -> None:
        if not self._kept:
            raise ConfigurationError(
                f"job {self._id} will have no result: its task has keep=None, so a completed job leaves no row. "
                "Leave keep out to wait for results"
            )

    def _gone(self, unknown: NotFound) -> NotFound:
        if self._kept:
            return unknown
        return NotFound(
            f"There is no job {self._id}. It has completed, and its task has keep=None; or its enqueue has not "
            "committed. If it had failed, there would be a dead letter or an archived row"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self._id, self.existed) == (other._id, other.existed)

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<Job {self._id}{' existed' if self.existed else ''}>"
