"""An installation in which the causes are real: workers, verbs, sessions and servers, and no row that a test wrote."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from tests.support.causes import promised
from tests.support.clock import let_pass
from tests.support.waiting import PATIENCE
from tests.support.workers import Inbox

from holdfast import Explanation, Holdfast, Reason
from holdfast.cli import cli

QUICK: dict[str, Any] = {"heartbeat": 0.1, "housekeeping": 0.1, "poll": 0.05}
"""A worker that says soon what it does."""
IDLE_KEEPER: dict[str, Any] = {"heartbeat": 0.1, "housekeeping": 60, "poll": 0.05}
"""The same, with chores so seldom that none mends what the test wants to see."""


@dataclass(slots=True)
class Scene:
    """An installation, its application, and what explain has said in this test."""

    inbox: Inbox
    hf: Holdfast
    said: set[str] = field(default_factory=set)
    _moved: float = 0.0

    async def why(self, id: UUID | str) -> Explanation:
        found = await self.hf.explain(id)
        self.said |= {reason.code for reason in found.reasons}
        return found

    async def codes(self, id: UUID | str) -> list[str]:
        return [reason.code for reason in (await self.why(id)).reasons]

    async def until(self, id: UUID | str, *codes: str) -> Explanation:
        """The explanation, as soon as these codes are its first reasons, in this order."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while True:
            found = await self.why(id)
            if tuple(reason.code for reason in found.reasons)[: len(codes)] == codes:
                return found
            assert loop.time() < deadline, f"expected {codes}, got {found.reasons}"
            await asyncio.sleep(0.02)

    async def command(self, *words: str) -> str:
        """Run a command as an operator does."""
        runner = CliRunner(env={"HOLDFAST_DATABASE_URL": self.inbox.url})
        told = await asyncio.to_thread(runner.invoke, cli, list(words), input="y\n")
        assert told.exit_code == 0, told.output
        return told.output

    async def obey(self, reason: Reason) -> str:
        """Run the first command of its remedy, as it stands there."""
        found = re.search(r"\bholdfast ([^,;]+)", reason.remedy or "")
        assert found, reason
        return await self.command(*found[1].split())

    async def later(self, seconds: float) -> None:
        """Let so many seconds pass on the one clock of the installation: all that it measures gets older."""
        self._moved += seconds
        await asyncio.to_thread(let_pass, self.inbox.url, self._moved)

    async def now(self) -> None:
        """Put the clock back, before a worker that stood still goes on."""
        await self.later(-self._moved)


@pytest.fixture
async def scene(hf: Holdfast, inbox: Inbox, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    made = Scene(inbox, hf)
    yield made
    missing = promised(request) - made.said
    assert not missing, f"explain never said {sorted(missing)}, which this test is marked with"
