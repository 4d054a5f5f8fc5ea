"""A Holdfast on a migrated database of the test's own."""

from collections.abc import AsyncIterator

import pytest
from tests.support.workers import Inbox

from holdfast import Holdfast


@pytest.fixture
def inbox(migrated_url: str) -> Inbox:
    inbox = Inbox(migrated_url)
    inbox.prepare()
    return inbox


@pytest.fixture
async def hf(inbox: Inbox) -> AsyncIterator[Holdfast]:
    app = Holdfast(inbox.url)
    yield app
    await app.close()
