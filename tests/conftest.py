"""Fixtures for all tests: one server for the session, a fresh database for each test that asks for one."""

from collections.abc import Iterator

import pytest

from tests.support.databases import Server, running_server
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


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
