"""What a worker counts: in its memory, on the board, in the books, and in the minutes."""

import asyncio
import mmap
import struct
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Context, Fail, Holdfast, Snooze, TxContext
from holdfast.model.flow import AnyOutcome, FlowEnd, Parked
from holdfast.model.job import Claim, Hold
from holdfast.model.numbers import COUNTS, OTHER, Attempts
from holdfast.model.occurrences import Expired, Outage, Part, Swept
from holdfast.model.outcome import DONE, AttemptFailed, Ended, Final, HandedBack, Snoozed
from holdfast.model.report import Report
from holdfast.worker.leases.ledger import Ledger
from holdfast.worker.numbers import board as boards
from holdfast.worker.numbers.board import PAIRS, Board
from holdfast.worker.numbers.books import Books, Minutes
from holdfast.worker.numbers.counting import Counting

FAST: dict[str, Any] = {"concurrency": 4, "lease": 30, "housekeeping": 0.2, "poll": 0.05, "heartbeat": 0.1}


def claim(kind: str = "send", queue: str = "mail", waited: float = 0.0, took: float = -1.0) -> Claim:
    made = Claim("w1", uuid4(), 1, 1, 1, 5, kind, 1, "{}", queue, "k", None, None, waited=waited)
    made.took = took
    return made


def counting() -> tuple[Counting, Board]:
    ledger = Ledger()
    return Counting(ledger.board), ledger.board


def read(board: Board) -> dict[tuple[str, str], Attempts]:
    return dict(board.read())


def test_each_outcome_is_counted_where_it_belongs() -> None:
    counts, board = counting()
    failed = AttemptFailed("Error", "no")
    endings: Sequence[tuple[str, AnyOutcome]] = [
        ("completed", DONE), ("completed", FlowEnd(DONE)), ("failed", Ended(Final.FAILED, "")),
        ("cancelled", Ended(Final.CANCELLED, "")), ("expired", Ended(Final.EXPIRED, "")), ("retried", failed),
        ("dead", failed), ("dead", Snoozed(1)), ("cancelled", failed), ("snoozed", Snoozed(1)),
        ("parked", Parked(1, ())), ("", HandedBack()), ("fenced", DONE), ("cancelled", Snoozed(1)),
    ]  # fmt: skip
    rows = [(claim(took=0.1), outcome) for _, outcome in endings]
    dead, stopped, lost = (rows[n][0] for n in (6, 8, 12))
    report = Report(completed=2, lost=[lost], stopped=[stopped, rows[13][0]], dead=[(dead, ""), (rows[7][0], "")])
    counts.claimed([row for row, _ in rows])
    counts.ended(rows, report)
    counts.ending_lost(lost)
    counts.publish()
    found = read(board)["mail", "send"]
    expected = {name: sum(name == each for each, _ in endings) for name, _ in endings if name}
    assert {name: count for name, count in found.counts().items() if count} == expected
    assert (found.run.count, found.pickup.count) == (len(rows), len(rows))


def test_the_usual_batch_takes_the_short_way() -> None:
    counts, board = counting()
    rows = [claim(took=0.001, waited=2.0) for _ in range(10)] + [claim("other", took=-1.0) for _ in range(5)]
    counts.claimed(rows)
    for row in rows:
        counts.started(row)
    counts.ended([(row, DONE) for row in rows], Report(completed=15))
    counts.publish()
    send, other = read(board)["mail", "send"], read(board)["mail", "other"]
    assert (send.started, send.completed, send.run.count, send.pickup.sum) == (10, 10, 10, 20.0)
    assert (other.completed, other.run.count) == (5, 0), "it did not run, so it took no time"


def test_too_many_pairs_are_counted_together() -> None:
    counts, board = counting()
    for n in range(1000):
        counts.claimed([claim(f"kind {n}")])
    counts.publish()
    found = read(board)
    assert len(found) == PAIRS
    assert found[OTHER, OTHER].pickup.count == 1000 - (PAIRS - 2)
    assert found["mail", "kind 5"].pickup.count == 1


def test_names_of_any_length_and_script() -> None:
    counts, board = counting()
    name = "\N{GRINNING FACE}" * 128
    counts.claimed([claim(name, name)])
    counts.publish()
    assert (name, name) in read(board)


def test_a_process_that_dies_while_it_writes_leaves_the_values_before() -> None:
    memory = mmap.mmap(-1, boards.SIZE)
    board = Board(memory, 0)
    place = board.add(("mail", "send"))
    board.write(place, Attempts(started=1))
    board.write(place, Attempts(started=2))
    (sequence,) = struct.unpack_from("<q", memory, board._at(place))
    unused = board._at(place) + boards._AT_VALUES + ((sequence + 1) & 1) * boards._VALUES.size
    memory[unused : unused + 100] = b"\xff" * 100  # as far as it came
    assert read(board)["mail", "send"].started == 2


def test_the_books_keep_what_a_process_counted_that_is_gone() -> None:
    books = Books()
    for started in (3, 4):
        counts, board = counting()
        books.open(board)
        rows = [claim() for _ in range(started)]
        counts.claimed(rows)
        for row in rows:
            counts.started(row)
        counts.publish()
        if started == 3:
            books.close(board)
    assert books.totals()["mail", "send"].started == 7
    assert books.totals()["mail", "send"].started == 7, "reading changes nothing"


def test_the_books_count_what_only_the_keeper_sees() -> None:
    books = Books()
    books.lease_lost(Hold("w1", uuid4(), 1))
    books.died([Swept(uuid4(), "w1", 1, status, "mail", "send") for status in ("pending", "pending", "dead_letter")])
    books.swept([Swept(uuid4(), "w2", 1, status, "mail", "send") for status in ("pending", "dead_letter", "failed")])
    books.swept([Swept(uuid4(), "w2", 1, "pending", "mail", "other")])
    books.expired([Expired(uuid4(), "send", "mail")])
    assert books.totals()["", ""].lease_losses == 1
    sent = books.totals()["mail", "send"]
    assert (sent.retried, sent.dead, sent.cancelled, sent.expired) == (3, 2, 1, 1)
    assert books.lost == {
        (("mail", "send"), "died"): 3, (("mail", "send"), "swept"): 3, (("mail", "other"), "swept"): 1,
    }  # fmt: skip


def test_what_the_books_do_not_know_is_not_counted_as_something_else() -> None:
    with pytest.raises(AssertionError, match="asleep"):
        Books().swept([Swept(uuid4(), "w2", 1, "asleep", "mail", "send")])


def test_the_books_keep_so_many_pairs_and_no_more() -> None:
    books = Books()
    for n in range(2 * boards.PAIRS):
        books.swept([Swept(uuid4(), "w2", 1, "pending", "mail", f"kind {n}")])
    books.swept([Swept(uuid4(), "w2", 1, "pending", "mail", "kind 0")])
    assert len(books.totals()) == boards.PAIRS + 1
    assert books.totals()["mail", "kind 0"].retried == 2
    assert sum(attempts.retried for attempts in books.totals().values()) == 2 * boards.PAIRS + 1
    assert books.lost[(OTHER, OTHER), "swept"] > boards.PAIRS


def test_reconnects_belong_to_nobody() -> None:
    counts, board = counting()
    for part in (Part.CLAIM, Part.HAND_OVER, Part.ENDINGS):
        counts.unavailable(Outage(part, OSError(), 1))
    counts.publish()
    assert read(board)["", ""].reconnects == 2


class Store:
    """A runner that takes the statements, or fails."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []
        self.fails = False

    async def run(self, room: str, name: str, *arguments: Any) -> list[Any]:
        if self.fails:
            raise ConnectionError
        self.stored.append(arguments)
        return []


async def test_only_what_is_new_is_stored_and_a_failure_loses_nothing() -> None:
    books, store = Books(), Store()
    counts, board = counting()
    books.open(board)

    async def count(times: int) -> None:
        for _ in range(times):
            counts.started(claim())
        counts.publish()
        await books.store(store)  # type: ignore[arg-type]

    await count(3)
    await count(0)
    assert [arguments[2] for arguments in store.stored] == [[3]], "nothing new, nothing stored"
    store.fails = True
    with pytest.raises(ConnectionError):
        await count(2)
    store.fails = False
    await count(1)
    books.close(board)
    await count(0)
    assert [arguments[2] for arguments in store.stored] == [[3], [3]]


# A real worker


async def test_what_is_being_stored_when_the_worker_ends_is_stored_once() -> None:
    """Stopped in the middle, nobody would know whether the server has it."""
    sent: list[tuple[object, ...]] = []
    called, answered = asyncio.Event(), asyncio.Event()

    class Slow:
        async def run(self, room: str, name: str, *arguments: object) -> None:
            sent.append(arguments)
            called.set()
            await answered.wait()

        async def close(self) -> None: ...

    books = Books()
    books.lease_lost(Hold("w1", uuid4(), 1))
    stored = Minutes(cast(Any, None), books, 0.01, 1.0)
    stored._link = cast(Any, Slow())
    run = asyncio.create_task(stored.run())
    await called.wait()
    run.cancel()
    for _ in range(2):
        books.lease_lost(Hold("w1", uuid4(), 1))
    asyncio.get_running_loop().call_later(0.05, answered.set)
    await stored.finish()
    assert [dict(zip(COUNTS, arguments[2:], strict=False))["lease_losses"] for arguments in sent] == [[1], [2]]


def minutes(inbox: Inbox) -> dict[tuple[str, str], dict[str, Any]]:
    rows = inbox.rows(
        "select queue, kind, sum(started)::int as started, sum(completed)::int as completed,"
        " sum(failed)::int as failed, sum(retried)::int as retried, sum(dead)::int as dead,"
        " sum(snoozed)::int as snoozed,"
        " sum((select sum(n) from unnest(run) n))::int as runs,"
        " sum((select sum(n) from unnest(pickup) n))::int as picked,"
        " sum(run_sum) as run_sum, sum(pickup_sum) as pickup_sum from holdfast.minutes where kind <> '' group by 1, 2"
    )
    return {(row["queue"], row["kind"]): row for row in rows}


async def test_a_worker_stores_what_its_attempts_did_and_the_rest_when_it_ends(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(queue="mail")
    async def send(ctx: Context) -> None:
        await asyncio.sleep(0.05)

    @hf.task
    async def in_transaction(ctx: TxContext) -> None:
        await ctx.tx.execute("select pg_sleep(0.05)")

    @hf.task(max_attempts=2)
    async def breaks() -> None:
        raise ValueError

    @hf.task
    async def gives_up() -> Fail:
        return Fail("no")

    @hf.task(max_snoozes=10)
    async def waits(ctx: Context) -> Snooze | None:
        return Snooze(0.01) if ctx.attempt == 1 and not await first(ctx) else None

    seen: set[UUID] = set()

    async def first(ctx: Context) -> bool:
        there = ctx.job_id in seen
        seen.add(ctx.job_id)
        return there

    inbox.prepare(backoff_unit=0.01)
    late = datetime.now(UTC) - timedelta(seconds=100)
    jobs = [await send.enqueue() for _ in range(5)]
    inbox.rows("update holdfast.inbox set available_at = %s", late)
    jobs += [await in_transaction.enqueue(), await breaks.enqueue(), await gives_up.enqueue(), await waits.enqueue()]
    async with hf.worker(**FAST):
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status <> 'dead_letter'") == 0)
    found = minutes(inbox)
    mail = found["mail", "send"]
    assert (mail["started"], mail["completed"], mail["runs"], mail["picked"]) == (5, 5, 5, 5)
    assert 0.25 <= mail["run_sum"] < 60
    assert 500 <= mail["pickup_sum"] < 800
    tx = found["default", "in_transaction"]
    assert (tx["started"], tx["completed"], tx["runs"]) == (1, 1, 1)
    assert tx["run_sum"] >= 0.05
    broke = found["default", "breaks"]
    assert (broke["started"], broke["retried"], broke["dead"]) == (2, 1, 1)
    assert found["default", "gives_up"]["failed"] == 1
    waited = found["default", "waits"]
    assert (waited["started"], waited["snoozed"], waited["completed"]) == (2, 1, 1)


async def test_ordered_jobs_have_a_pick_up_time_too(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(ordered=True)
    async def one_by_one() -> None: ...

    jobs = [await one_by_one.options(key="k").enqueue() for _ in range(3)]
    inbox.rows("update holdfast.inbox set available_at = now() - interval '100 seconds'")
    async with hf.worker(**FAST):
        await until(lambda: inbox.count([job.id for job in jobs], "completed") == 3)
    found = minutes(inbox)["default", "one_by_one"]
    assert found["picked"] == 3
    assert 300 <= found["pickup_sum"] < 600


# The endpoint


async def get(url: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


async def ready(url: str) -> None:
    async def there() -> bool:
        return (await get(f"{url}/readyz"))[0] == 200

    async with asyncio.timeout(30):
        while not await there():
            await asyncio.sleep(0.05)


Serve = Callable[[], Awaitable[str]]


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def test_an_embedded_worker_serves_metrics_and_probes(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(queue="mail")
    async def send() -> None: ...

    where = f"127.0.0.1:{free_port()}"
    url = f"http://{where}"
    async with hf.worker(**FAST, metrics=where):
        await ready(url)
        assert await get(f"{url}/healthz") == (200, "alive\n")
        job = await send.enqueue()
        await until(lambda: inbox.status(job.id) == "completed")

        async def counted() -> bool:
            return (
                'holdfast_attempts_ended_total{queue="mail",kind="send",outcome="completed"} 1'
                in (await get(f"{url}/metrics"))[1]
            )

        async with asyncio.timeout(30):
            while not await counted():
                await asyncio.sleep(0.05)
        status, page = await get(f"{url}/metrics/installation")
        assert status == 200
        assert 'holdfast_workers{status="alive"} 1' in page
        assert (await get(f"{url}/nothing"))[0] == 404
    with pytest.raises(OSError):
        await get(f"{url}/healthz")


async def test_an_address_that_is_taken_is_said_before_anything_starts(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task
    async def send() -> None: ...

    where = f"127.0.0.1:{free_port()}"
    async with hf.worker(**FAST, metrics=where):
        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with hf.worker(**FAST, metrics=where):
                pass
        assert len(inbox.workers()) == 1


async def test_a_request_that_is_none_gets_no_answer_and_does_no_harm(hf: Holdfast) -> None:
    @hf.task
    async def send() -> None: ...

    port = free_port()
    async with hf.worker(**FAST, metrics=f"127.0.0.1:{port}"):
        await ready(f"http://127.0.0.1:{port}")
        for sent in (b"", b"\x00" * 100_000, b"POST /metrics HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = b""
            with suppress(OSError):  # it may hang up before it has read all
                writer.write(sent)
                writer.write_eof()
                answer = await reader.read()
            assert answer == b"" or b"405" in answer
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        assert (await get(f"http://127.0.0.1:{port}/healthz"))[0] == 200
