"""The doctor's findings. He examines at most twice a minute, however many look."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from starlette.requests import Request

from ...app import Holdfast
from ...model.finding import Finding
from ..desk import Desk, Route, get

FRESH = 30.0
"""Seconds for which findings are shown again."""
EVERY = 60.0
"""Seconds between two examinations while somebody looks at the overview."""


class Examiner:
    """The newest findings."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._turn = asyncio.Lock()
        self._at = float("-inf")
        self._examining: asyncio.Task[Any] | None = None
        self.newest: list[Finding] = []

    async def findings(self) -> list[Finding]:
        """Return findings that are not old."""
        async with self._turn:
            if time.monotonic() - self._at > FRESH:
                self.newest = await self._app.doctor()
                self._at = time.monotonic()
            return self.newest

    def soon(self) -> list[Finding]:
        """Return the newest findings, and examine again if that is due, without waiting for it."""
        if time.monotonic() - self._at > EVERY and (self._examining is None or self._examining.done()):
            self._examining = asyncio.create_task(self._quietly(), name="holdfast dashboard doctor")
        return self.newest

    async def close(self) -> None:
        if self._examining is not None:
            self._examining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._examining

    async def _quietly(self) -> None:
        with contextlib.suppress(Exception):  # without a database, the state itself says it
            await self.findings()


async def doctor(desk: Desk, request: Request) -> Any:
    return {"findings": await desk.examiner.findings()}


ROUTES: list[Route] = [get("/doctor", doctor)]
