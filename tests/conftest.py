"""Fixtures for all tests: one server for the session, a fresh database for each test that asks for one."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.db.database import Database
from holdfast.schema.migrate import migrate
from tests.support.databases import Server, running_server, unusable
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


def pytest_configure(config: pytest.Config) -> None:
    """One plain sentence, before any of the processes that run the tests is started."""
    if not hasattr(config, "workerinput") and (problem := unusable()) is not None:
        raise pytest.UsageError(problem)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this session: embedded, or the one that HOLDFAST_DATABASE_URL names."""
    with running_server() as server:
        yield server


@pytest.fixture
def database_url(postgres: Server) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def migrated_url(postgres: Server) -> Iterator[str]:
    """The address of a database of this test's own, migrated to this release."""
    with postgres.database(migrated(postgres)) as url:
        yield url


def migrated(server: Server) -> str:
    """The template of migrated databases."""
    return server.template("migrated", _migrate)


def _migrate(url: str) -> None:
    asyncio.run(migrate(Database(url)))
