"""What the hands do not start, and what a drain takes out of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.inbox import Session
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Context, Holdfast, TxContext
from holdfast.db.link import Link
from holdfast.loading import served
from holdfast.model.job import Claim
from holdfast.model.occurrences import Occurrences
from holdfast.worker.attempts import hands as module
from holdfast.worker.attempts.completer import Completer
from holdfast.worker.attempts.deciding import Unstarted, barred
from holdfast.worker.attempts.hands import Hands
from holdfast.worker.attempts.permits import Permits
from holdfast.worker.attempts.runner import JobRunner
from holdfast.worker.attempts.transactions import Transactions
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases import ledger as marks
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.settings import WorkerSettings
from holdfast.worker.tally import Tally

LEASE = 60.0


@dataclass
class Bench:
    """Hands with all that they need, and no claims but those of the test."""

    hands: Hands
    completer: Completer
    runner: JobRunner
    ledger: Ledger
    tally: Tally
    ran: list[UUID] = field(default_factory=list)

    async def work(self) -> None:
        """Let one hand go through what is ready."""
        hand = asyncio.create_task(self.hands.work(self.runner))
        async with asyncio.timeout(25):
            while self.hands.held or not self.completer.idle:
                await asyncio.sleep(0.005)
        hand.cancel()
        await asyncio.gather(hand, return_exceptions=True)


@pytest.fixture
async def bench(hf: Holdfast) -> AsyncIterator[Bench]:
    ran: list[UUID] = []

    @hf.task(name="job")
    async def job(ctx: Context, n: int) -> None:
        ran.append(ctx.job_id)

    settings = WorkerSettings(lease=LEASE)
    definitions = {kind: task._definition for kind, task in hf.tasks.items()}
    link, ledger, tally = Link(hf._database, "write"), Ledger(), Tally()
    completer = Completer(link, ledger, Occurrences(tally), LEASE, batch=10)
    completer.start()
    runner = JobRunner(hf._database, definitions, settings, Occurrences(tally))
    hands = Hands(
        definitions, settings, ledger, Occurrences(tally), completer, asyncio.Event(), Permits(settings.concurrency)
    )
    yield Bench(hands, completer, runner, ledger, tally, ran)
    await completer.close(within=10)
    await runner.close()
    await link.close()


async def claim_two(one: Session) -> tuple[Claim, Claim]:
    await one.add(2)
    first, second = await one.claim("w1")
    return first, second


@pytest.mark.parametrize("how", ["ran out", "told"])
async def test_a_row_whose_lease_was_lost_before_it_started_never_starts(one: Session, bench: Bench, how: str) -> None:
    lost, kept = await claim_two(one)
    bench.hands.take([lost], marks.now() - int((LEASE + 1) * 1e9) if how == "ran out" else marks.now())
    bench.hands.take([kept], marks.now())
    if how == "told":
        (row,) = (row for row in bench.ledger.held() if row.id == lost.id)
        assert bench.ledger.notice(row, marks.LOST)
    await bench.work()
    assert bench.ran == [kept.id]
    assert (bench.tally.counters.started, bench.tally.counters.lease_lost) == (1, 1)
    assert (await one.row(lost.id))["status"] == "processing", "whose it is now is for others to say"


@pytest.mark.parametrize(
    ("flow", "generation", "cancelled", "left", "why"),
    [
        (False, 1, False, None, None),
        (False, 1, True, None, Unstarted.CANCELLED),
        (False, 2, True, -1.0, Unstarted.CANCELLED),
        (False, 2, False, 0.0, Unstarted.EXPIRED),
        (False, 2, False, 0.5, Unstarted.MAY_HAVE_EXPIRED),
        (False, 2, False, 2.0, None),
        (True, 2, True, None, None),  # it is undone
        (True, 1, False, -1.0, Unstarted.EXPIRED),
        (True, 1, True, -1.0, Unstarted.EXPIRED),
        (True, 2, False, -1.0, None),  # it has begun
    ],
)
def test_what_bars_a_claimed_row(
    flow: bool, generation: int, cancelled: bool, left: float | None, why: Unstarted | None
) -> None:
    claim = Claim("w1", uuid4(), generation, 1, 1, 5, "job", 1, "{}", "default", "k", None, None, cancelled, left)
    claim.start_by = int((left or 0) * 1e9)
    assert barred(claim, flow, int(1e9)) is why


async def test_a_job_cancelled_before_its_claim_never_starts(one: Session, bench: Bench) -> None:
    cancelled, kept = await claim_two(one)
    await one.inbox("cancel", cancelled.id, "enough", "ann")
    await one.inbox("hand_back", [cancelled.id, kept.id], [1, 1], "w1")
    bench.hands.take(await one.claim("w1"), marks.now())
    await bench.work()
    assert bench.ran == [kept.id]
    row = await one.archived(cancelled.id)
    assert row is not None
    assert (row["status"], row["last_error"]) == ("cancelled", "cancelled while an earlier attempt ran")
    assert (bench.tally.counters.started, bench.tally.counters.cancelled) == (1, 1)


async def expire_in(one: Session, id: UUID, seconds: float) -> None:
    """Let the job expire after so many seconds."""
    await one.connection.execute(
        "update holdfast.inbox set expires_at = clock_timestamp() + make_interval(secs => $2) where id = $1",
        id,
        seconds,
    )


async def test_a_job_that_had_expired_when_it_was_claimed_never_starts(one: Session, bench: Bench) -> None:
    late, kept = await one.add(2)
    await expire_in(one, late, -1)
    await expire_in(one, kept, 60)
    bench.hands.take(await one.claim("w1"), marks.now())
    await bench.work()
    assert bench.ran == [kept]
    row = await one.archived(late)
    assert row is not None
    assert (row["status"], row["attempts"]) == ("expired", 0)
    counters = bench.tally.counters
    assert (counters.started, counters.expired, counters.completed, counters.lease_lost) == (1, 1, 1, 0)


async def test_a_job_that_expires_while_it_waits_for_a_hand_is_handed_back(one: Session, bench: Bench) -> None:
    """The worker's clock cannot say that it has expired, only that a start might be too late: the next claim can."""
    late, kept = await one.add(2)
    await expire_in(one, late, 20)
    await expire_in(one, kept, 90)
    bench.hands.take(await one.claim("w1"), marks.now() - int(20e9))
    await bench.work()
    assert bench.ran == [kept]
    assert (await one.row(late))["status"] == "pending"
    assert (await one.row(late))["attempts"] == 0
    assert (bench.tally.counters.expired, bench.tally.counters.handed_back) == (0, 1)
    await expire_in(one, late, -1)
    bench.hands.take(await one.claim("w1"), marks.now())
    await bench.work()
    assert bench.ran == [kept]
    assert bench.tally.counters.expired == 1


async def test_an_answer_that_came_late_leaves_less_time(one: Session, bench: Bench) -> None:
    """The seconds left count from when the claim was sent: what the worker did not notice, it must not gain."""
    (late,) = await one.add()
    await expire_in(one, late, 20)
    bench.hands.take(await one.claim("w1"), marks.now() - int(20e9))
    await bench.work()
    assert bench.ran == []
    assert (await one.row(late))["status"] == "pending"


async def test_an_expired_job_whose_ending_is_not_written_counts_as_not_started(one: Session, bench: Bench) -> None:
    """If the process dies now, the supervisor hands it back; as a failed attempt it might become a dead letter."""
    (late,) = await one.add()
    await expire_in(one, late, -1)
    await bench.completer.close(within=1)
    bench.hands.take(await one.claim("w1"), marks.now())
    hand = asyncio.create_task(bench.hands.work(bench.runner))
    await until(lambda: bench.completer.backlog == 1)
    assert [row.stage for row in bench.ledger.held()] == [marks.HELD]
    hand.cancel()
    await asyncio.gather(hand, return_exceptions=True)


async def test_a_job_that_expires_while_it_waits_for_its_transaction_is_handed_back(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool without a free connection takes long; the check before that is too early."""

    @hf.task
    async def write(ctx: TxContext) -> None:
        await ctx.tx.execute("insert into effects values ($1, 1)", ctx.job_id)

    begin = Transactions._begin

    async def slow(*arguments: Any) -> Any:
        begun = await begin(*arguments)
        await asyncio.sleep(0.5)
        return begun

    monkeypatch.setattr(Transactions, "_begin", slow)
    job = await write.options(expires="300ms").enqueue()
    async with hf.worker(poll=0.05):
        await until(lambda: job.status_sync() == "expired")
    assert inbox.one("select count(*) from effects") == 0
    state = await job.state()
    assert (state.attempts, state.errors) == (0, [])


@pytest.fixture
def never_stale(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing goes back because it has waited for long."""
    monkeypatch.setattr(module, "STALE", 3600.0)
    yield


@pytest.mark.parametrize("asked", ["by the registry", "by the end of the block"])
@pytest.mark.usefixtures("never_stale")
async def test_a_drain_hands_back_at_once_what_has_not_started(hf: Holdfast, inbox: Inbox, asked: str) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @hf.task
    async def quick() -> None:
        pass

    @hf.task
    async def hold() -> None:
        started.set()
        await go_on.wait()

    worker = EmbeddedWorker(served(hf), WorkerSettings(concurrency=1, lease=300, housekeeping=3600, heartbeat=0.2))
    await worker.start()
    stopping: asyncio.Task[None] | None = None
    try:
        await quick.enqueue_many([{}] * 200)  # teach it that handlers are quick
        await until(lambda: worker.engine.tally.counters.completed == 200)
        await hf.pause("default")
        await quick.enqueue_many([{}] * 20)  # and that there is a backlog: so it claims ahead
        (held,) = await hold.enqueue_many([{}])
        behind = [job.id for job in await quick.enqueue_many([{}] * 20)]
        await hf.resume("default")
        await started.wait()
        await until(lambda: inbox.count(behind, "processing") > 0)
        if asked == "by the registry":
            await hf.drain_workers([worker.name])
            await until(lambda: inbox.count(behind, "pending") == len(behind))
        stopping = asyncio.create_task(worker.stop())
        await until(lambda: inbox.count(behind, "pending") == len(behind))
        assert inbox.status(held.id) == "processing"
    finally:
        go_on.set()
        await (worker.stop() if stopping is None else stopping)
    assert inbox.status(held.id) == "completed"
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.inbox")} == {0}
