"""Fixtures for pytest. In the `conftest.py` at the root of your tests: `pytest_plugins = ["holdfast.testing.pytest"]`.

They are not installed as a plugin of every pytest run: that would import Holdfast, and its drivers, in each project
that has it installed.

All of them are plain functions, so they work in sync tests and with every plugin for async ones.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import pytest

from ..app import Holdfast
from ..db.database import Connection, Database
from ..db.portal import Portal
from ..db.urls import resolve_url
from ..embedded import EmbeddedPostgres, EmbeddedPostgresError
from .databases import clean_sync

SERVER = "HOLDFAST_TEST_DATABASE_URL"
"""Names a server to use, instead of starting one."""


class _Server:
    """A server on which databases may be created."""

    def __init__(self, url: str) -> None:
        self._database = Database(resolve_url(url), pooler=False)
        self._url = url
        self._portal = Portal("holdfast tests")

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[tuple[str, str]]:
        """The name and the URL of a new database, dropped at the end even if sessions are left in it."""
        name = f"holdfast_test_{secrets.token_hex(6)}"
        self._execute(f"create database {name} template {template}")
        try:
            yield name, urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))
        finally:
            self._execute(f"drop database if exists {name} with (force)")

    def _execute(self, statement: str) -> None:
        self._portal.run(self._run(statement))

    async def _run(self, statement: str) -> None:
        connection: Connection = await self._database.connect("tests")
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def holdfast_postgres() -> Iterator[str]:
    """The URL of a server for the session, on which databases may be created: embedded, or HOLDFAST_TEST_DATABASE_URL.

    Override it to use your own.
    """
    if given := os.environ.get(SERVER):
        yield given
        return
    try:
        server = EmbeddedPostgres()
        server.start()
    except EmbeddedPostgresError as error:
        error.add_note(
            f"To use a server that runs already, set {SERVER}; its role must be allowed to create databases."
        )
        raise
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture(scope="session")
def holdfast_schema() -> str:
    """The schema that is migrated. Override it if your application uses another one."""
    return os.environ.get("HOLDFAST_SCHEMA") or "holdfast"


@pytest.fixture(scope="session")
def holdfast_prepare() -> Callable[[str], None]:
    """Override it to create your own tables: return a function of a URL, called once, after Holdfast's migration.

    It must close its connections: Postgres does not copy a database in use.
    """
    return lambda url: None


@pytest.fixture(scope="session")
def _holdfast_template(
    holdfast_postgres: str, holdfast_schema: str, holdfast_prepare: Callable[[str], None]
) -> Iterator[tuple[_Server, str]]:
    server = _Server(holdfast_postgres)
    with server.database() as (name, url):
        app = Holdfast(url, schema=holdfast_schema, pooler=False)
        app.migrate_sync()
        app.close_sync()
        holdfast_prepare(url)
        yield server, name


@pytest.fixture(scope="session")
def holdfast_url(_holdfast_template: tuple[_Server, str]) -> Iterator[str]:
    """The URL of a migrated database, shared by the tests of the session. See `holdfast_clean`."""
    server, template = _holdfast_template
    with server.database(template) as (_, url):
        yield url


@pytest.fixture
def holdfast_new_url(_holdfast_template: tuple[_Server, str]) -> Iterator[str]:
    """The URL of a migrated database of this test's own. Takes about 50 ms."""
    server, template = _holdfast_template
    with server.database(template) as (_, url):
        yield url


@pytest.fixture(scope="session")
def _holdfast_cleaner(holdfast_url: str, holdfast_schema: str) -> Iterator[Holdfast]:
    app = Holdfast(holdfast_url, schema=holdfast_schema, pooler=False)
    yield app
    app.close_sync()


@pytest.fixture
def holdfast_clean(holdfast_url: str, _holdfast_cleaner: Holdfast) -> Iterator[str]:
    """`holdfast_url`, without jobs: what other tests left is removed before the test, and what it leaves after it.

    Jobs, archived ones too, idempotency keys, once markers, kinds and schedules are removed, and paused queues are
    resumed. If a test left its clock frozen, the real one is put back. Your own tables stay as they are.
    """
    clean_sync(_holdfast_cleaner)
    yield holdfast_url
    clean_sync(_holdfast_cleaner)
