"""Fixtures for the tests that kill things."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.databases import new_server
from tests.support.pooler import database_at, through_pooler
from tests.support.workers import Fleet, running_fleet

from holdfast.embedded import EmbeddedPostgres
from holdfast.schema.migrate import migrate


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of this test's own, to be killed at will; its database `postgres` is migrated."""
    with new_server() as server:
        asyncio.run(migrate(database_at(server.url)))
        yield server


@pytest.fixture
def own_fleet(own_postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[Fleet]:
    """As `fleet`, on the server of this test's own."""
    with through_pooler(own_postgres.url) as url, running_fleet(url, tmp_path) as fleet:
        fleet.inbox.prepare()
        yield fleet
