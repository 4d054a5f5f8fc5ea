"""Databases for tests: which ones may be changed, how they are cleaned, and an application on one of them."""

from __future__ import annotations

import os
import re
import socket
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..db.database import Database
from ..db.urls import resolve_pooler, resolve_url
from ..errors import ConfigurationError, Contended

if TYPE_CHECKING:
    from ..app import Holdfast

TEST_NAME = re.compile(r"(?:^|[^a-z])(?:tests?|testing)(?:$|[^a-z])", re.IGNORECASE)
"""`shop_test`, `test_shop` and `test1`; not `contest` or `latest`."""

MARK = "insert into %s.settings (name, value) values ('testing', 'true')"

_allowed: WeakKeyDictionary[Holdfast, Database] = WeakKeyDictionary()
"""The database that was checked last, per application: `drain` asks only once."""


async def check_once(app: Holdfast, what: str) -> None:
    """As `check`, once per application and database, and without regard to workers."""
    if _allowed.get(app) != app._database:
        await check(app, what, workers=True)
        _allowed[app] = app._database


async def check(app: Holdfast, what: str, *, workers: bool = False) -> bool:
    """Raise unless this is a database for tests. Returns whether its clock is replaced.

    `workers`: may workers of other processes be live on it?
    """
    ((name, marked, others, replaced),) = await app._calls.run(
        "testing", "guard", socket.gethostname(), str(os.getpid())
    )
    schema = app._database.schema
    if not marked and TEST_NAME.search(name) is None:
        raise ConfigurationError(
            f"{what} changes only databases for tests, and {name!r} (at {app._database.shown}) does not look like one. "
            f"Expected a name with the word 'test', such as {name}_test. Or mark it, with this SQL: {MARK % schema}"
        )
    if others and not workers:
        raise ConfigurationError(
            f"{what}: {len(others)} live worker{'s' * (len(others) != 1)} of other processes use the schema {schema!r} "
            f"of {name!r}: {', '.join(others[:3])}. Stop them, or use another database"
        )
    return bool(replaced)


async def clean(app: Holdfast) -> None:
    """Remove all jobs, archived ones too, idempotency keys, once markers, kinds and schedules; resume paused queues.

    Queues keep their modes, and settings stay. Only in a database for tests.

    ```python
    from holdfast.testing import clean

    await clean(hf)
    ```
    """
    from .clock import restore

    if await check(app, "clean()"):
        await restore(app)
    try:
        await app._calls.execute(f"set local lock_timeout = '5s'; {app._database.sql('testing', 'clean')}")
    except Contended:
        raise ConfigurationError(
            "clean(): another session has kept jobs locked for 5 s; expected that no transaction is open. Commit or "
            "roll back those of the test first (see pg_stat_activity)"
        ) from None


def clean_sync(app: Holdfast) -> None:
    """As `clean`, for code that does not await."""
    app._calls.wait_for(clean(app))


def use_database(app: Holdfast, url: str) -> UseDatabase:
    """Point an application at another database for a block: `with` or `async with use_database(hf, url):`.

    At the end its connections are closed, so that the database can be dropped. Use `async with` in async tests: only
    the event loop that has opened connections can close them properly.

    ```python
    from holdfast.testing import use_database

    async with use_database(hf, url):
        await send_receipt.enqueue(24)
    ```
    """
    return UseDatabase(app, url)


class UseDatabase(AbstractAsyncContextManager[None], AbstractContextManager[None]):
    """See `use_database`."""

    def __init__(self, app: Holdfast, url: str) -> None:
        self._app = app
        self._database = Database(resolve_url(url), app._schema, resolve_pooler(app._pooler))
        self._before: Database | None = None

    async def __aenter__(self) -> None:
        await self._app.close()  # connections to the other database
        self._before, self._app._resolved = self._app._resolved, self._database

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._app.close()
        self._app._resolved = self._before

    def __enter__(self) -> None:
        self._app.close_sync()
        self._before, self._app._resolved = self._app._resolved, self._database

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.close_sync()
        self._app._resolved = self._before
