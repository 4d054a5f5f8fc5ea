"""The command line as its users meet it: a process, a database, what it says and how it ends."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.pooler import wants_pooler
from tests.support.questions import Questions

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err

    @property
    def json(self) -> Any:
        assert self.code == 0, self.all
        return json.loads(self.out)


@dataclass(slots=True)
class Shell:
    """`holdfast …` in a folder, with nothing of ours in the environment but the address and the way to it."""

    url: str | None
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    _questions: Questions = field(default_factory=Questions, repr=False)

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}
        ours.pop("DATABASE_URL", None)
        address = {"HOLDFAST_DATABASE_URL": self.url} if self.url is not None else {}
        way = {"HOLDFAST_POOLER": "1"} if wants_pooler() else {}
        return {**ours, **address, **way, **self.environment, **(more or {})}

    def __call__(self, *words: str, stdin: str = "", **variables: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.cli", *words],
            cwd=self.folder, env=self.variables(variables), input=stdin, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def sql(self, statement: str, *parameters: object) -> list[Row]:
        assert self.url is not None
        return self._questions.ask(self.url, statement, parameters or None)

    def enqueue(self, kind: str = "send_receipt", **more: object) -> UUID:
        (row,) = self.sql("select holdfast.enqueue(kind => %s, queue => %s) as id", kind, more.get("queue", "default"))
        id = row["id"]
        assert isinstance(id, UUID)
        return id

    def dead_letter(self, kind: str = "send_receipt", error: str = "Boom: no", queue: str = "default") -> UUID:
        id = self.enqueue(kind, queue=queue)
        self.sql(
            "update holdfast.inbox set status = 'dead_letter', attempts = max_attempts, lease_generation = 5, "
            "dead_at = now(), last_error = %s where id = %s", error, id,
        )  # fmt: skip
        return id


@pytest.fixture
def bare(database_url: str, tmp_path: Path) -> Shell:
    """A shell whose database holds nothing."""
    return Shell(database_url, tmp_path)


@pytest.fixture
def shell(migrated_url: str, tmp_path: Path) -> Shell:
    """A shell whose database is migrated."""
    return Shell(migrated_url, tmp_path)
