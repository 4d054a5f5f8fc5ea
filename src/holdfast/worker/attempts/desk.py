"""The desk: answers the questions that handlers ask while they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, assert_never

from ...db.runner import Runner
from ...inbox import once
from ...model.job import Claim
from ...model.questions import EnterOnce, FinishOnce, Progress, Question
from ...probes import probe
from .deciding import OnceBusy
from .progress import ProgressNotes


class WorkerDesk:
    """See `context.Desk`."""

    def __init__(self, runner: Runner, state: Any) -> None:
        self._runner = runner
        self.state = state
        self._loop = asyncio.get_running_loop()
        self._progress = ProgressNotes(runner, self._loop)

    async def ask(self, claim: Claim, question: Question) -> bool:
        match question:
            case EnterOnce(key):
                entry = await once.enter(self._runner, key, claim.id, claim.fence)
                if entry is once.Entry.BUSY:
                    raise OnceBusy(key)
                return entry is once.Entry.FIRST
            case FinishOnce(key):
                await once.finish(self._runner, key, claim.fence)
                probe("once.after")  # the marker is committed
                return True
            case _:
                assert_never(question)

    def note(self, claim: Claim, progress: Progress) -> None:
        self._progress.add(claim, progress)

    def close(self) -> None:
        """Stop; no handler runs any more."""
        self._progress.close()

    def wait(self, work: Awaitable[Any]) -> Any:
        """Run it on the worker's loop, and wait for it in a handler's thread."""
        return asyncio.run_coroutine_threadsafe(_await(work), self._loop).result()


async def _await(work: Awaitable[Any]) -> Any:
    return await work
