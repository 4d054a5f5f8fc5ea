"""A store outside the database that rejects stale writers."""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import LeaseLost

GUARD = """
insert into documents (name, body, fence) values (?, ?, ?)
on conflict (name) do update set body = excluded.body, fence = excluded.fence
where documents.fence <= excluded.fence
"""


def create(file: Path) -> None:
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("create table documents (name text primary key, body text not null, fence integer not null)")


def write(file: Path, name: str, body: str, fence: int) -> None:
    """Write under a fence. The check and the write are one statement, so nothing can happen in between."""
    with closing(sqlite3.connect(file, timeout=10)) as store, store:
        if store.execute(GUARD, (name, body, fence)).rowcount == 0:
            raise LeaseLost(f"{name} was written under a later fence than {fence}")


def read(file: Path, name: str) -> tuple[str, int] | None:
    with closing(sqlite3.connect(file)) as store:
        row: tuple[str, int] | None = store.execute(
            "select body, fence from documents where name = ?", (name,)
        ).fetchone()
        return row
