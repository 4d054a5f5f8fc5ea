"""Run attempts inside the spans of a traced application."""

from __future__ import annotations

from typing import Protocol

from ...errors import Cancelled
from ...model.flow import AnyOutcome
from ...model.tracing import Tracing
from .runner import JobRunner
from .running import Running


class AttemptRunner(Protocol):
    """What a hand needs of a runner."""

    def at_once(self, running: Running) -> AnyOutcome | None: ...

    async def run(self, running: Running) -> AnyOutcome | None: ...


class TracedRunner:
    """The span is around all that an attempt does: its transaction, its middleware, its handler."""

    def __init__(self, runner: JobRunner, tracing: Tracing) -> None:
        self._runner = runner
        self._tracing = tracing

    def at_once(self, running: Running) -> None:
        """Nothing: the span has to be there first."""

    async def run(self, running: Running) -> AnyOutcome | None:
        claim = running.claim
        with self._tracing.attempt(claim) as attempt:
            if self._runner.passes_on(claim.kind):
                claim.carried = attempt.carry()
                running.tracing = self._tracing
            outcome = await self._runner.run(running)
            if outcome is None:  # its ending is written
                attempt.ended(running.written)
                return None
            # A cancelled workflow is undone: its runs are not stopped with this reason, and are retried.
            return attempt.ended(outcome, cancelled=isinstance(running.reason, Cancelled))


def traced(runner: JobRunner, tracing: Tracing | None) -> AttemptRunner:
    """The runner itself if the application is not traced: then an attempt pays nothing."""
    return runner if tracing is None else TracedRunner(runner, tracing)
