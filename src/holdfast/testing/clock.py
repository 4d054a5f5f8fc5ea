"""A clock that stands still until a test moves it.

The schema reads the time in two ways. `holdfast.clock()` is what everything is compared with. The times of rows come
from `clock_timestamp()`, because a producer's row must not carry a time before its transaction drew its xid: the claim
floor needs that. While the clock is frozen, both are the same: the first one is a constant, and where functions of the
schema, and statements of this application, say `clock_timestamp()`, they get the first one. So delays, retries,
schedules, horizons and `run_now` agree.

What stays real: deadlines in Python, which are monotonic (timeouts of attempts, leases as a worker sees them), the
column defaults of hand-written INSERTs, and the times in ids.

The recorded digests of the replaced functions are marked. So `holdfast migrate` puts the real ones back if a test run
was killed.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from ..db.database import Database
from ..db.statements import in_schema
from ..errors import ConfigurationError, InvalidInput
from ..model.durations import Duration, seconds
from ..model.limits import check_instant
from ..schema.functions import Function, functions
from ..schema.migrate import PIN_NAMES
from .databases import check
from .schedules import declare_schedules

if TYPE_CHECKING:
    from ..app import Holdfast

REAL, OURS = "clock_timestamp()", "holdfast.clock()"
MARK = "testing"
"""The digest that is recorded for a function that is replaced."""
LEFT = {"uuidv7", "clock"}
"""Functions that read `clock_timestamp()` for other purposes, or are replaced as a whole."""


class FrozenDatabase(Database, frozen=True):
    """An installation whose statements read the frozen clock."""

    def sql(self, room: str, name: str) -> str:
        return super().sql(room, name).replace(REAL, in_schema(OURS, self.schema))


def frozen_clock(app: Holdfast, at: datetime | None = None) -> FrozenClock:
    """Let the clock of this application's schema stand still for a block, from now or from `at` on.

    `async with frozen_clock(hf) as clock:` or `with …`; then `clock.advance("1h")` or `clock.set(instant)`. The real
    clock is back at the end of the block. Only in a database for tests on which no worker of another process is live.
    Enter it before you start a worker in the test.

    ```python
    from holdfast.testing import frozen_clock

    async with frozen_clock(hf) as clock:
        await clock.advance("5m")
        assert (await drain(hf)).of(send_receipt)
    ```
    """
    return FrozenClock(app, check_instant("at", at) if at is not None else None)


class FrozenClock(AbstractAsyncContextManager["FrozenClock"], AbstractContextManager["FrozenClock"]):
    """The clock of a schema, standing still. See `frozen_clock`.

    ```python
    async with frozen_clock(hf, datetime(2030, 1, 5, tzinfo=UTC)) as clock:
        print(clock.now)
    ```
    """

    def __init__(self, app: Holdfast, at: datetime | None) -> None:
        self._app = app
        self._now = at.astimezone(UTC) if at is not None else None
        self._before: Database | None = None

    @property
    def now(self) -> datetime:
        """The time that it shows, in UTC."""
        if self._now is None:
            raise ConfigurationError("frozen_clock: it is not frozen yet; write: with frozen_clock(hf) as clock:")
        return self._now

    async def advance(self, duration: Duration) -> datetime:
        """Move it forward: `await clock.advance("1h")`. Returns the new time.

        ```python
        async with frozen_clock(hf) as clock:
            await clock.advance("1h")
        ```
        """
        return await self._show(self.now + timedelta(seconds=seconds(duration, "duration")))

    def advance_sync(self, duration: Duration) -> datetime:
        """As `advance`, for code that does not await."""
        return self._app._calls.wait_for(self.advance(duration))

    async def set(self, instant: datetime) -> datetime:
        """Move it to this instant, forward or back. Returns the new time.

        ```python
        async with frozen_clock(hf) as clock:
            await clock.set(datetime(2030, 1, 5, tzinfo=UTC))
        ```
        """
        return await self._show(check_instant("instant", instant).astimezone(UTC))

    def set_sync(self, instant: datetime) -> datetime:
        """As `set`, for code that does not await."""
        return self._app._calls.wait_for(self.set(instant))

    async def skip(self) -> datetime | None:
        """Move it forward to when the next job or timer is due. Returns the new time; None if nothing waits for a time.

        ```python
        async with frozen_clock(hf) as clock:
            print(await clock.skip())
        ```
        """
        ((due,),) = await self._app._calls.run("testing", "next_due", self.now)
        return await self._show(due.astimezone(UTC)) if due is not None else None

    def skip_sync(self) -> datetime | None:
        """As `skip`, for code that does not await."""
        return self._app._calls.wait_for(self.skip())

    async def __aenter__(self) -> FrozenClock:
        if isinstance(self._app._database, FrozenDatabase):
            raise InvalidInput("frozen_clock", "the clock of this application is frozen already; use that one")
        await check(self._app, "frozen_clock()")
        if self._now is None:
            ((self._now,),) = await self._app._calls.run("testing", "now")
        assert self._now is not None
        database = self._app._database
        script = [*_replaced(database.schema), _clock(database.schema, self._now)]
        await self._app._calls.execute("; ".join([PIN_NAMES.rstrip(";"), *script]))
        self._before = self._app._resolved
        self._app._resolved = FrozenDatabase(database.url, database.schema, database.pooler)
        try:
            await declare_schedules(self._app)  # they count from now on
        except BaseException:
            await self._thaw()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thaw()

    def __enter__(self) -> FrozenClock:
        return self._app._calls.wait_for(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app._calls.wait_for(self._thaw())

    async def _thaw(self) -> None:
        try:
            await restore(self._app)
        finally:
            self._app._resolved = self._before

    async def _show(self, instant: datetime) -> datetime:
        await self._app._calls.execute(f"{PIN_NAMES} {_clock(self._app._database.schema, instant)}")
        self._now = instant
        return instant


async def restore(app: Holdfast) -> None:
    """Put the real clock back, in one transaction."""
    schema = app._database.schema
    ours = [function for function in functions(schema) if function.name == "clock" or _reads_clock(function)]
    parts = [f"{function.text}; {_record(function.name, function.digest, schema)}" for function in ours]
    await app._calls.execute(f"{PIN_NAMES} {'; '.join(parts)}")


def _reads_clock(function: Function) -> bool:
    return REAL in function.text and function.name not in LEFT


def _replaced(schema: str) -> list[str]:
    """The functions that read `clock_timestamp()`, as they read the frozen clock."""
    clock = in_schema(OURS, schema)
    return [
        f"{function.text.replace(REAL, clock)}; {_record(function.name, MARK, schema)}"
        for function in functions(schema)
        if _reads_clock(function)
    ]


def _clock(schema: str, instant: datetime) -> str:
    text = (
        "create or replace function holdfast.clock() returns timestamptz language sql stable parallel safe "
        f"return timestamptz '{instant.isoformat()}'; {_record('clock', MARK, schema)}"
    )
    return in_schema(text, schema)


def _record(name: str, digest: str, schema: str) -> str:
    statement = f"update holdfast.functions set digest = '{digest}' where name = '{name}'"  # noqa: S608 - ours
    return in_schema(statement, schema)
