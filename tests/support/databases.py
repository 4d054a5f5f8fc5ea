"""The server under test, and fresh databases on it.

Which server: HOLDFAST_TEST_POSTGRES=old starts the binaries of HOLDFAST_TEST_OLD_POSTGRES; else
HOLDFAST_DATABASE_URL names a running one, whose user must be allowed to create databases; else an embedded
one is started. HOLDFAST_TEST_POOLER=1 puts a pooler in front of it, whose addresses the tests then get.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from holdfast.embedded import EmbeddedPostgres
from tests.support.pooler import direct, through_pooler
from tests.support.questions import Questions

SETTINGS: dict[str, str | int] = {"shared_buffers": "256MB", "max_connections": 200, "max_wal_size": "256MB"}

IN_MEMORY = Path("/dev/shm")
ENOUGH = 4 * 1024**3


@dataclass(slots=True)
class Server:
    """A running server, perhaps behind a pooler; `embedded` is None when somebody else runs it."""

    url: str
    embedded: EmbeddedPostgres | None = None
    _templates: dict[str, str] = field(default_factory=dict)
    _questions: Questions = field(default_factory=Questions, repr=False)
    _strategy: sql.SQL | None = None

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """The address of a new database, empty or a copy of `template`; dropped at the end, used or not."""
        name = self._create(template)
        try:
            yield self._address(name)
        finally:
            self._drop(name)

    def template(self, purpose: str, prepare: Callable[[str], None]) -> str:
        """The name of a database filled by `prepare`, which gets its address; made once, copied by many.

        `prepare` must close its connections: Postgres does not copy a database in use.
        """
        if purpose not in self._templates:
            name = self._create(None)
            self._templates[purpose] = name
            prepare(direct(self._address(name)))  # a pooler would not close them
        return self._templates[purpose]

    def drop_templates(self) -> None:
        while self._templates:
            self._drop(self._templates.popitem()[1])

    def _create(self, template: str | None) -> str:
        name = f"holdfast_test_{secrets.token_hex(6)}"
        statement = sql.SQL("create database {} template {} {}")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template0"), self._how()))
        return name

    def _how(self) -> sql.SQL:
        """How to copy a template: since Postgres 15, the default is to log each page, which takes twice the CPU."""
        if self._strategy is None:
            (row,) = self._questions.ask(self.url, "select current_setting('server_version_num')::int >= 150000 as new")
            self._strategy = sql.SQL("strategy file_copy" if row["new"] else "")
        return self._strategy

    def _drop(self, name: str) -> None:
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        self._questions.ask(self.url, statement.as_string())

    def _address(self, database: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))


def new_server(settings: Mapping[str, str | int] = SETTINGS) -> EmbeddedPostgres:
    """A server with the binaries that the environment asks for, in memory if it fits: a new database takes a sixth of
    the time there, and a commit does not wait for a disk that all tests share. Tests kill processes, not machines."""
    bin_folder = os.environ["HOLDFAST_TEST_OLD_POSTGRES"] if wants_old_postgres() else None
    return EmbeddedPostgres(settings, bin_folder, IN_MEMORY if _fits_in_memory() else None)


def _fits_in_memory() -> bool:
    if not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK | os.X_OK):
        return False
    place = os.statvfs(IN_MEMORY)
    return place.f_bavail * place.f_frsize > ENOUGH and not place.f_flag & os.ST_NOEXEC


@contextmanager
def running_server() -> Iterator[Server]:
    """The server that the environment asks for, until the end of the block."""
    existing = os.environ.get("HOLDFAST_DATABASE_URL")
    if existing and not wants_old_postgres():
        with through_pooler(existing) as url:
            server = Server(url)
            try:
                yield server
            finally:
                server.drop_templates()
        return
    with new_server() as embedded:
        _make_logins_cheap(embedded)
        with through_pooler(embedded.url) as url:
            yield Server(url, embedded)


def _make_logins_cheap(server: EmbeddedPostgres) -> None:
    """Hash the password once rather than 4096 times: that was half of the CPU of each of many thousand connections."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        if connection.info.server_version >= 160000:
            connection.execute("set scram_iterations = 1")
            statement = sql.SQL("alter role {} password {}")
            connection.execute(statement.format(sql.Identifier(connection.info.user), server.password))


def unusable() -> str | None:
    """Why the tests cannot run on the server that HOLDFAST_DATABASE_URL names; None when they can."""
    existing = os.environ.get("HOLDFAST_DATABASE_URL")
    if not existing or wants_old_postgres():
        return None
    remedy = "Unset HOLDFAST_DATABASE_URL to run the tests on an embedded server."
    try:
        with psycopg.connect(existing) as connection:
            row = connection.execute(
                "select current_user, rolcreatedb or rolsuper from pg_roles where rolname = current_user"
            ).fetchone()
    except psycopg.Error as error:
        return f"HOLDFAST_DATABASE_URL names a server that cannot be used ({str(error).strip()}). {remedy}"
    assert row is not None
    user, may_create = row
    if may_create:
        return None
    return (
        f"HOLDFAST_DATABASE_URL names a server on which {user} may not create databases, and each test makes its own. "
        f"Run there: alter role {user} createdb. {remedy}"
    )


def wants_old_postgres() -> bool:
    return os.environ.get("HOLDFAST_TEST_POSTGRES") == "old"
