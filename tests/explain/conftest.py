"""One installation for all tests of a file: each has a queue of its own, and an empty registry of workers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.conftest import migrated
from tests.support.databases import Server
from tests.support.pooler import direct

from holdfast import Explanation, Holdfast


@dataclass(slots=True)
class Place:
    """An installation, seen from outside, and its application."""

    url: str
    hf: Holdfast
    queue: str
    _connection: psycopg.Connection[dict[str, Any]] = field(repr=False)

    def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        cursor = self._connection.execute(sql.SQL(statement), arguments or None)
        return cursor.fetchall() if cursor.description else []

    def enqueue(self, kind: str | None = "job", **options: object) -> UUID:
        named = "".join(f", {name} => %s" for name in options)
        (row,) = self.rows(
            f"select holdfast.enqueue(%s, queue => %s{named}) as id", kind, self.queue, *options.values()
        )
        id: UUID = row["id"]
        return id

    def set(self, id: UUID, **columns: str) -> UUID:
        """Put a job into the state that the columns, as SQL, describe."""
        changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
        self.rows(f"update holdfast.inbox set {changes} where id = %s", id)
        return id

    def worker(self, name: str = "w1", *, silent: float = 1.0, status: str = "alive", **metadata: object) -> str:
        """A worker in the registry: by default one that serves the queue and knows jobs."""
        whole: dict[str, object] = {"queues": [self.queue], "kinds": {"job": [1, 1]}, "concurrency": 4, **metadata}
        self.rows(
            """insert into holdfast.workers (id, status, last_seen_at, metadata)
               values (%s, %s, now() - make_interval(secs => %s), %s::jsonb)
               on conflict (id) do update
               set status = excluded.status, last_seen_at = excluded.last_seen_at, metadata = excluded.metadata""",
            name, status, silent, json.dumps(whole),
        )  # fmt: skip
        return name

    def why(self, id: UUID | str) -> Explanation:
        return self.hf.explain_sync(id)

    def codes(self, id: UUID | str) -> list[str]:
        return [reason.code for reason in self.why(id).reasons]


@pytest.fixture(scope="module")
def shared(postgres: Server) -> Iterator[Place]:
    with postgres.database(migrated(postgres)) as url:
        hf = Holdfast(url)
        with psycopg.connect(direct(url), autocommit=True, row_factory=dict_row) as connection:
            yield Place(url, hf, "", connection)
        hf.close_sync()


@pytest.fixture
def place(shared: Place, request: pytest.FixtureRequest) -> Iterator[Place]:
    shared.queue = request.node.name.removeprefix("test_")[:100]
    yield shared
    for table in ("workers", "inbox", "journal", "queues", "chores", "endpoints", "routes", "instances", "steps"):
        shared.rows(f"delete from holdfast.{table}")
