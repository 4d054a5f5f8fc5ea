"""Two sessions on a migrated database."""

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.inbox import Session, session


@pytest_asyncio.fixture
async def one(migrated_url: str) -> AsyncIterator[Session]:
    async with session(migrated_url, "one") as opened:
        yield opened


@pytest_asyncio.fixture
async def two(migrated_url: str) -> AsyncIterator[Session]:
    async with session(migrated_url, "two") as opened:
        yield opened
