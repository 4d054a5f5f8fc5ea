"""A server of its own for all tests of a file, because they change its settings; each test leaves it as it was."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.support.causes import promised
from tests.support.databases import SETTINGS, new_server
from tests.support.pooler import database_at

from holdfast import Finding, Holdfast
from holdfast.doctor.checks import notify
from holdfast.schema.migrate import migrate

CONNECTIONS = 25


@dataclass(slots=True)
class Ward:
    """An installation on a server that may be ill."""

    url: str
    hf: Holdfast
    _connection: psycopg.Connection[dict[str, Any]] = field(repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)
    said: list[Finding] = field(default_factory=list, repr=False)
    """What the doctor has found in this test."""

    def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        cursor = self._connection.execute(sql.SQL(statement), arguments or None)
        return cursor.fetchall() if cursor.description else []

    def find(self, check: str) -> Finding:
        (finding,) = self.hf.doctor_sync(check)
        assert finding.name == check
        self.said.append(finding)
        return finding

    def level(self, check: str) -> str:
        return self.find(check).level

    def session(self) -> psycopg.Connection[Any]:
        """Another session, until the end of the test."""
        return self._stack.enter_context(psycopg.connect(self.url))

    def finally_(self, what: Callable[[], object]) -> None:
        self._stack.callback(what)

    def worker(self, name: str = "w1", *, silent: float = 1.0, up: float = 300.0, **metadata: object) -> None:
        whole: dict[str, object] = {
            "version": "0.1.0", "queues": ["default"], "kinds": {"job": [1, 1]}, "concurrency": 4, **metadata,
        }  # fmt: skip
        self.rows(
            """insert into holdfast.workers (id, last_seen_at, started_at, metadata)
               values (%s, now() - make_interval(secs => %s), now() - make_interval(secs => %s), %s::jsonb)
               on conflict (id) do update set last_seen_at = excluded.last_seen_at, metadata = excluded.metadata""",
            name, silent, up, json.dumps({key: value for key, value in whole.items() if value is not None}),
        )  # fmt: skip

    def job(self, count: int = 1, queue: str = "default", **columns: str) -> None:
        names, values = ", ".join(["", *columns]), ", ".join(["", *columns.values()])
        self.rows(
            f"""insert into holdfast.inbox (partition_key, partition_bucket, queue, kind, payload{names})
                select 'k', 1, %s, 'job', '{{"type": "job"}}'{values} from generate_series(1, %s)""",
            queue, count,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification may take as long as a busy machine needs, where this is not the point."""
    monkeypatch.setattr(notify, "WARN", 20.0)
    monkeypatch.setattr(notify, "NONE", 30.0)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[str]:
    more: dict[str, str | int] = {
        "max_prepared_transactions": 5,
        "wal_level": "logical",
        "max_connections": CONNECTIONS,
    }
    with new_server({**SETTINGS, **more}) as server:
        asyncio.run(migrate(database_at(server.url)))
        yield server.url


@pytest.fixture(scope="module")
def shared(own_postgres: str) -> Iterator[Ward]:
    hf = Holdfast(own_postgres)
    with psycopg.connect(own_postgres, autocommit=True, row_factory=dict_row) as connection:
        yield Ward(own_postgres, hf, connection)
    hf.close_sync()


@pytest.fixture
def ward(shared: Ward, request: pytest.FixtureRequest) -> Iterator[Ward]:
    shared.said.clear()
    yield shared
    shared._stack.close()
    for table in ("workers", "inbox", "queues", "chores"):
        shared.rows(f"delete from holdfast.{table}")
    check_promise(request, shared.said)


def check_promise(request: pytest.FixtureRequest, said: list[Finding]) -> None:
    """Fail unless the doctor has found what the test is marked with: "check: level: some words"."""
    for promise in sorted(promised(request)):
        name, level, words = promise.split(": ", 2)
        assert any((each.name, each.level) == (name, level) and words in each.sentence for each in said), (
            f"the doctor never found {promise!r}, which this test is marked with"
        )
