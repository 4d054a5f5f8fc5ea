"""The sessions that tests keep between two drains, per application and event loop. `Holdfast.close` closes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..db.database import Database, cut_off
from ..db.link import Link
from ..model.occurrences import Occurrences
from ..worker.attempts.transactions import Transactions
from ..worker.log_lines import LogLines
from ..worker.settings import WorkerSettings

if TYPE_CHECKING:
    from ..app import Holdfast

SETTINGS = WorkerSettings(concurrency=1, lease=3600.0)
"""A long lease: nothing renews it, and a debugger may stop a handler for a while."""


class HandlerTransactions(Transactions):
    """Sessions for `ctx.tx` and `ctx.once`. To open one takes 20 ms."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, SETTINGS, Occurrences(LogLines()))

    def on(self, database: Database) -> HandlerTransactions:
        """The same, with the statements of this one: its clock may be frozen."""
        self._database = database
        return self

    def abandon(self) -> None:
        """End the sessions, whose event loop is closed."""
        for holder in getattr(self._pool, "_holders", ()):
            if holder._con is not None:
                cut_off(holder._con)


def link(app: Holdfast) -> Link:
    """The link for the statements of a worker."""
    kept = app._calls.keep(Link, lambda database: Link(database, "tests"))
    kept.database = app._database
    return kept


def transactions(app: Holdfast) -> HandlerTransactions:
    """The transactions of handlers."""
    return app._calls.keep(HandlerTransactions, HandlerTransactions).on(app._database)
