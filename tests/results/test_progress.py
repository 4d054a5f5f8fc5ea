"""A handler says how far it is: cheaply, at most once a second, and only while it owns its job."""

import asyncio
import itertools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.cli.conftest import Shell
from tests.support.inbox import Session
from tests.support.waiting import until, wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import Context, Holdfast, TxContext
from holdfast.context import Desk
from holdfast.inbox import ending
from holdfast.model.job import Claim
from holdfast.model.outcome import AttemptFailed
from holdfast.model.questions import Progress
from holdfast.worker.attempts.progress import ProgressNotes

FAST: dict[str, Any] = {"concurrency": 4, "lease": 5, "housekeeping": 0.2, "poll": 0.05}


def stored(inbox: Inbox, id: UUID) -> Any:
    rows = inbox.rows("select progress from holdfast.inbox where id = %s", id)
    return rows[0]["progress"] if rows else None


async def test_progress_is_seen_while_the_handler_runs_and_not_after(
    hf: Holdfast, inbox: Inbox, tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    @hf.task
    async def on_loop(ctx: Context) -> None:
        ctx.progress(0.4, "400 of 1000")
        await go_on.wait()

    @hf.task
    def in_thread(ctx: Context) -> None:
        ctx.progress(0.5)
        while not go_on.is_set():
            time.sleep(0.01)

    @hf.task
    async def in_transaction(ctx: TxContext) -> None:
        ctx.progress(0.6, "in a transaction")
        await go_on.wait()

    async with hf.worker(**FAST):
        jobs = [await task.enqueue() for task in (on_loop, in_thread, in_transaction)]
        await until(lambda: all(stored(inbox, job.id) for job in jobs))
        states = [await job.state() for job in jobs]
        shown = Shell(inbox.url, tmp_path)("job", "show", str(jobs[0].id)).out
        go_on.set()
        for job in jobs:
            assert await job.result(timeout=30) is None
    assert [(state.progress.fraction, state.progress.text) for state in states if state.progress] == [
        (0.4, "400 of 1000"), (0.5, ""), (0.6, "in a transaction"),
    ]  # fmt: skip
    first = states[0].progress
    assert first is not None
    assert abs((datetime.now(UTC) - first.at).total_seconds()) < 60
    assert first.attempt == 1
    (line,) = [line for line in shown.splitlines() if line.startswith("progress")]
    assert line.split(maxsplit=1)[1].startswith("40% 400 of 1000 (attempt 1, 20")
    assert line.endswith("Z)")
    assert (await jobs[0].state()).progress is None


@pytest.mark.parametrize("kind", ["counts", "counts_apart"])
def test_a_hundred_thousand_reports_cost_little(fleet: Fleet, inbox: Inbox, tmp_path: Path, kind: str) -> None:
    gate = tmp_path / "gate"
    (row,) = inbox.rows("select holdfast.enqueue(%s, jsonb_build_object('gate', %s::text)) as id", kind, str(gate))
    fleet.start(app="tests.apps.apart:hf")
    wait_until(lambda: (stored(inbox, row["id"]) or {}).get("text") == "400 of 1000", 60)
    gate.touch()
    wait_until(lambda: inbox.job(row["id"])["status"] == "completed")


async def test_a_retry_shows_how_far_the_last_attempt_was(one: Session, hf: Holdfast) -> None:
    (id,) = await one.add()
    (claim,) = await one.claim("w1")
    await one.inbox("progress", [id], [claim.generation], [Progress(0.4, "x" * 900).record(claim.attempt)], "w1")
    await ending.write(one, [(claim, AttemptFailed("Boom", "no"))])
    state = await hf.job(id)
    assert state.progress is not None
    assert (state.status, state.progress.attempt) == ("pending", 1)
    assert len(state.progress.text) < 520
    assert "[cut]" in state.progress.text
    await one.connection.execute("update holdfast.inbox set progress = '[1]' where id = $1", id)
    assert (await hf.job(id)).progress is None, "written by hand"


@pytest.mark.parametrize(("given", "kept"), [(0.5, 0.5), (-1, 0.0), (1.0000001, 1.0), (1, 1.0), (float("nan"), 0.0)])
def test_a_fraction_out_of_range_does_not_fail_the_attempt(given: float, kept: float) -> None:
    noted: list[Progress] = []

    class Notes:
        def note(self, claim: Claim, progress: Progress) -> None:
            noted.append(progress)

    Context(a_claim(), cast(Desk, Notes())).progress(given, "half")
    assert noted == [Progress(kept, "half")]


def a_claim(id: UUID | None = None) -> Claim:
    return Claim("w1", id or uuid4(), 1, 1, 1, 5, "job", 1, "{}", "default", "k", None, None)


# The collector, without a database


class Runner:
    def __init__(self) -> None:
        self.asked: list[tuple[float, tuple[Any, ...]]] = []
        self.error: Exception | None = None
        self.locked: set[UUID] = set()

    async def run(self, room: str, name: str, *arguments: Any) -> list[asyncpg.Record]:
        self.asked.append((asyncio.get_running_loop().time(), arguments))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        rows: Any = [{"id": id} for id in arguments[0] if id not in self.locked]
        return list(rows)


async def test_one_statement_for_all_and_the_last_value_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.attempts.progress.EVERY", 0.1)
    runner = Runner()
    notes = ProgressNotes(runner, asyncio.get_running_loop())
    claims = [a_claim() for _ in range(3)]
    for n in range(50):
        for claim in claims:
            await asyncio.to_thread(notes.add, claim, Progress(n / 50, str(n)))
    stored: dict[UUID, str] = {}
    while len([text for text in stored.values() if '"49"' in text]) < 3:
        await asyncio.sleep(0.01)
        for _, (ids, _, texts, *_) in runner.asked:
            stored |= dict(zip(ids, texts, strict=True))
    times = [at for at, _ in runner.asked]
    assert all(after - before >= 0.09 for before, after in itertools.pairwise(times))
    assert all(list(ids) == sorted(ids) for _, (ids, *_) in runner.asked)
    asked = len(runner.asked)
    await asyncio.sleep(0.3)
    assert len(runner.asked) == asked, "nothing is written when nothing is new"


async def test_a_value_that_is_not_stored_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.attempts.progress.EVERY", 0.02)
    runner = Runner()
    notes = ProgressNotes(runner, asyncio.get_running_loop())
    runner.error = OSError("away")
    claim = a_claim()
    runner.locked = {claim.id}
    notes.add(claim, Progress(0.5, "half"))
    await asyncio.sleep(0.03)
    runner.error = None
    await asyncio.sleep(0.2)
    assert len(runner.asked) == 2
    notes.add(claim, Progress(1, "all"))
    await asyncio.sleep(0.2)
    assert len(runner.asked) == 4
