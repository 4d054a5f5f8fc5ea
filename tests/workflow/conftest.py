"""Workers have declared which kinds are workflows."""

from collections.abc import AsyncIterator

import pytest
from tests.support.inbox import Session, session
from tests.workflow.flows import declare


@pytest.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    async with session(migrated_url, "one") as opened:
        await declare(opened)
        yield opened
