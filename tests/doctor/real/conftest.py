"""An installation whose faults are real: workers, verbs and servers, and no row that a test wrote."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tests.doctor.conftest import check_promise
from tests.support.clock import let_pass
from tests.support.waiting import PATIENCE
from tests.support.workers import Inbox

from holdfast import Finding, Holdfast


@dataclass(slots=True)
class Clinic:
    """An installation, its application, and what the doctor has found in this test."""

    inbox: Inbox
    hf: Holdfast
    said: list[Finding] = field(default_factory=list)
    _moved: float = 0.0

    async def find(self, check: str, hf: Holdfast | None = None) -> Finding:
        (finding,) = await (hf or self.hf).doctor(check)
        self.said.append(finding)
        return finding

    async def until(self, check: str, level: str, words: str = "") -> Finding:
        """What the check finds, as soon as it is so bad, and says this."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while True:
            found = await self.find(check)
            if found.level == level and words in found.sentence:
                return found
            assert loop.time() < deadline, f"expected {level} {words}, got {found}"
            await asyncio.sleep(0.02)

    async def later(self, seconds: float) -> None:
        """Let so many seconds pass on the one clock of the installation: all that it measures gets older."""
        self._moved += seconds
        await asyncio.to_thread(let_pass, self.inbox.url, self._moved)


@pytest.fixture
async def clinic(hf: Holdfast, inbox: Inbox, request: pytest.FixtureRequest) -> AsyncIterator[Clinic]:
    made = Clinic(inbox, hf)
    yield made
    check_promise(request, made.said)
