"""Real workers, started as users start them, and a look at the database that shares nothing with them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.apps import witness
from tests.apps.witness import Seen
from tests.support.questions import Questions
from tests.support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Inbox:
    """What the database says; no outage outlasts a question."""

    url: str
    enqueued: list[UUID] = field(default_factory=list)
    _questions: Questions = field(default_factory=Questions, repr=False, compare=False)

    def rows(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        return self._questions.ask(self.url, statement, arguments)

    def one(self, statement: str, *arguments: Any) -> Any:
        return next(iter(self.rows(statement, *arguments)[0].values()))

    def prepare(self, **settings: float) -> None:
        """Short backoffs, and a plain table for effects without any constraint that would hide a second one."""
        for name, value in {"backoff_unit": 0.05, "backoff_jitter": 0, **settings}.items():
            self.rows("update holdfast.settings set value = to_jsonb(%s::float8) where name = %s", value, name)
        self.rows("create table if not exists effects (job uuid, attempt int)")

    def enqueue(
        self, kind: str, *, max_attempts: int = 5, idempotency_key: str | None = None, **arguments: Any
    ) -> UUID:
        id: UUID = self.one(
            "select holdfast.enqueue(%s, %s::jsonb, idempotency_key => %s, max_attempts => %s)",
            kind, json.dumps(arguments), idempotency_key, max_attempts,
        )  # fmt: skip
        if id not in self.enqueued:
            self.enqueued.append(id)
        return id

    def enqueue_many(self, kind: str, count: int, **arguments: Any) -> list[UUID]:
        rows = self.rows(
            "select holdfast.enqueue(%s, %s::jsonb) as id from generate_series(1, %s)",
            kind, json.dumps(arguments), count,
        )  # fmt: skip
        ids = [row["id"] for row in rows]
        self.enqueued += ids
        return ids

    def job(self, id: UUID) -> dict[str, Any]:
        (row,) = self.rows("select * from holdfast.jobs where id = %s", id)
        return row

    def status(self, id: UUID) -> str:
        return str(self.job(id)["status"])

    def wait(self, ids: UUID | Iterable[UUID], status: str = "completed", seconds: float = PATIENCE) -> None:
        """Until all of them have this status."""
        wanted = [ids] if isinstance(ids, UUID) else list(ids)

        def there() -> bool:
            if self.count(wanted, status) == len(wanted):
                return True
            time.sleep(0.03)  # the question is not free when it names many jobs
            return False

        wait_until(there, seconds)

    def count(self, ids: Sequence[UUID], status: str) -> int:
        statement = "select count(*) from holdfast.jobs where id = any(%s) and status = %s::holdfast.inbox_status"
        return int(self.one(statement, list(ids), status))

    def effects(self, id: UUID) -> int:
        return int(self.one("select count(*) from effects where job = %s", id))

    def workers(self) -> dict[str, str]:
        return {row["id"]: row["status"] for row in self.rows("select id, status from holdfast.workers")}

    def check_promises(self) -> None:
        """P1, P3, P4, P5, P7 and P14, recounted for everything enqueued here."""
        rows = self.rows("select * from holdfast.jobs where id = any(%s)", self.enqueued)
        assert sorted(row["id"] for row in rows) == sorted(self.enqueued), "P1: a job is missing, or there twice"
        for row in rows:
            assert row["status"] in ("completed", "failed", "cancelled", "expired", "dead_letter"), (
                f"P14: not at rest: {row}"
            )
            assert row["attempts"] <= row["max_attempts"], f"P7: {row}"
            generations = [error["generation"] for error in row["errors"] or []]
            assert generations == sorted(set(generations)), f"P3: an old generation wrote late: {row}"
            assert not generations or generations[-1] <= row["lease_generation"], f"P3: {row}"
            if row["kind"] == "tx_effect" and row["status"] == "completed":
                assert self.effects(row["id"]) == 1, f"P5: {row}"
        fences = [row["fence"] for row in rows if row["fence"] is not None]
        assert len(fences) == len(set(fences)), "P4: a fence was handed out twice"


@dataclass(slots=True)
class Worker:
    """A `holdfast worker` command: a supervisor and its processes."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def children(self) -> list[int]:
        """Pids of its ordinary worker processes, as the kernel knows them."""
        return [pid for pid in self._processes if b"isolation" not in _arguments(pid)]

    @property
    def isolation(self) -> list[int]:
        """Pids of its isolation processes."""
        return [pid for pid in self._processes if b"isolation" in _arguments(pid)]

    @property
    def _processes(self) -> list[int]:
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        return [int(pid) for pid in text.split()]

    @property
    def child(self) -> int:
        (pid,) = self.children
        return pid

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        return self.process.wait(seconds)

    def drain(self, seconds: float = 60) -> int:
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def end(self) -> None:
        """By all means, with its children: they share its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(30)


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@dataclass(slots=True)
class Fleet:
    """The workers of one test."""

    inbox: Inbox
    folder: Path
    workers: list[Worker] = field(default_factory=list)

    @property
    def witness_file(self) -> Path:
        return self.folder / "witness"

    def seen(self, job: UUID | None = None, what: str | None = None) -> list[Seen]:
        lines = witness.read(self.witness_file)
        return [s for s in lines if job in (None, s.job) and what in (None, s.what)]

    def wait_seen(self, job: UUID, what: str, times: int = 1, seconds: float = PATIENCE) -> None:
        wait_until(lambda: len(self.seen(job, what)) >= times, seconds)

    def launch(
        self,
        *,
        app: str = "tests.apps.effects:hf",
        lease: float = 1.5,
        housekeeping: float = 0.3,
        concurrency: int = 4,
        processes: int = 1,
        probes: str = "",
        url: str | None = None,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> Worker:
        """Start one, without waiting for anything."""
        log_file = self.folder / f"worker-{len(self.workers)}.log"
        variables = {
            **os.environ,
            "HOLDFAST_DATABASE_URL": url or self.inbox.url,
            witness.VARIABLE: str(self.witness_file),
            **(environment or {}),
        }
        variables.pop("HOLDFAST_PROBES", None)
        if probes:
            variables["HOLDFAST_PROBES"] = probes
        command = [
            sys.executable, "-m", "holdfast.cli", "worker", app,
            "--lease", str(lease), "--housekeeping", str(housekeeping), "-c", str(concurrency),
            "--processes", str(processes), "--poll", "0.1", *options,
        ]  # fmt: skip
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        worker = Worker(process, log_file)
        self.workers.append(worker)
        return worker

    def start(self, *, processes: int = 1, **options: Any) -> Worker:
        """Start one; on return its processes are registered and claim."""
        worker = self.launch(processes=processes, **options)
        self.wait_ready(worker, processes)
        return worker

    def wait_ready(self, worker: Worker, processes: int = 1) -> None:
        def ready() -> bool:
            assert worker.process.poll() is None, f"the worker ended:\n{worker.log}"
            return len(self.names(worker)) >= processes

        wait_until(ready, 60)  # nobody promises how fast Python starts

    def names(self, worker: Worker) -> list[str]:
        """The registered ids of its living processes."""
        rows = self.inbox.rows("select id from holdfast.workers where status = 'alive'")
        children = {str(pid) for pid in worker.children}
        return [row["id"] for row in rows if row["id"].rsplit("-", 2)[1] in children]


@contextmanager
def running_fleet(url: str, folder: Path) -> Iterator[Fleet]:
    """A fleet that is gone at the end; what its workers said is shown when the test fails."""
    fleet = Fleet(Inbox(url), folder)
    try:
        yield fleet
    finally:
        for worker in fleet.workers:
            worker.end()
            print(f"--- {worker.log_file.name}\n{worker.log}")
