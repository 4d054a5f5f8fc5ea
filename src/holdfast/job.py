"""A job that was enqueued, as its producer knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from .model.durations import Duration
from .views.questions import JobState

if TYPE_CHECKING:
    from .app import Holdfast


class Job:
    """What `enqueue` returns: the job's id, and ways to ask about it."""

    __slots__ = ("_app", "existed", "id", "replaced")

    def __init__(self, app: Holdfast, id: UUID, existed: bool = False, replaced: bool = False) -> None:
        self._app = app
        self.id = id
        self.existed = existed
        """True if this idempotency key, id or unique job was there before: nothing was added."""
        self.replaced = replaced
        """True if a job that waited has got these arguments (see `replace`)."""

    async def state(self) -> JobState:
        """Where the job is now, and its result if it has completed. Raises `NotFound` until its enqueue commits."""
        return await self._app.job(self.id)

    def state_sync(self) -> JobState:
        """As `state`, for code that does not await."""
        return self._app.job_sync(self.id)

    async def result(self, timeout: Duration | None = None) -> Any:
        """Wait until the job ends, and return what its handler returned: see `Holdfast.result`."""
        return await self._app.result(self.id, timeout)

    def result_sync(self, timeout: Duration | None = None) -> Any:
        """As `result`, for code that does not await."""
        return self._app.result_sync(self.id, timeout)

    async def status(self) -> str:
        """'pending', 'processing', 'completed' …: `(await job.state()).status`."""
        return (await self.state()).status

    def status_sync(self) -> str:
        """As `status`, for code that does not await."""
        return self.state_sync().status

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.id, self.existed) == (other.id, other.existed)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Job {self.id}{' existed' if self.existed else ''}>"
