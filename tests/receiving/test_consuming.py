"""The loop of a consumer, over a real Redis: nothing lost, nothing twice, whatever dies."""

import asyncio
import base64
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as redis
from tests.receiving.pump import GROUP, GroupConsumer, application, fields
from tests.support.brokers import fresh
from tests.support.brokers.redis import RedisServer
from tests.support.links import Proxy
from tests.support.waiting import until, wait_until
from tests.support.workers import ROOT, Inbox

from holdfast import ConfigurationError, Event, Holdfast
from holdfast.loading import served
from holdfast.model.occurrences import Occurrences
from holdfast.receiving import consuming as loop_module
from holdfast.receiving.consuming import Consuming
from holdfast.transports import Away
from holdfast.transports.consuming import Incoming
from holdfast.worker.log_lines import LogLines


class Stream:
    def __init__(self, server: RedisServer) -> None:
        self.url = server.url
        self.name = fresh("stream")

    async def add(self, *entries: dict[Any, Any]) -> None:
        async with redis.Redis.from_url(self.url) as client:
            for start in range(0, len(entries), 500):
                async with client.pipeline(transaction=False) as pipe:
                    for entry in entries[start : start + 500]:
                        pipe.xadd(self.name, entry)
                    await pipe.execute()

    async def unacknowledged(self) -> int:
        async with redis.Redis.from_url(self.url) as client:
            pending = await client.xpending(self.name, GROUP)
            (group,) = await client.xinfo_groups(self.name)
            return int(pending["pending"]) + int(group["lag"] or 0)


@pytest.fixture
def stream(redis_server: RedisServer) -> Stream:
    return Stream(redis_server)


@asynccontextmanager
async def pumping(
    hf: Holdfast, name: str | None = None, deadline: float = 10, lease: float = 10
) -> AsyncIterator[Consuming]:
    worker = served(hf)
    occurrences = Occurrences(LogLines())
    consuming = Consuming(
        worker.database, worker.consumers, name or fresh("w"), occurrences, deadline=deadline, lease=lease
    )
    consuming.start()
    try:
        yield consuming
    finally:
        await consuming.stop()


def ids(inbox: Inbox) -> list[str]:
    rows = inbox.rows(
        "select payload -> 'event' ->> 'id' as id from holdfast.jobs where kind like 'shop/%%' order by seq"
    )
    return [row["id"] for row in rows]


async def count(inbox: Inbox, number: int) -> None:
    await until(lambda: inbox.one("select count(*) from holdfast.jobs") >= number, 60)


def consumer_of(hf: Holdfast) -> GroupConsumer:
    consumer = hf._consumers[0].consumer
    assert isinstance(consumer, GroupConsumer)
    return consumer


async def test_messages_become_jobs_in_their_order(inbox: Inbox, stream: Stream) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    await stream.add(*(fields(f"e{n}", partitionkey=f"k{n % 7}") for n in range(1000)))
    async with pumping(hf):
        await count(inbox, 1000)
        await _until_acknowledged(stream)
    assert ids(inbox) == [f"e{n}" for n in range(1000)]
    assert await stream.unacknowledged() == 0


async def test_redeliveries_and_what_cannot_be_read(inbox: Inbox, stream: Stream) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    await stream.add(*[fields("e1")] * 5, {"data": "no event"}, fields("e2", "{"), fields("e3", type="order.lost"))
    async with pumping(hf) as consuming:
        await until(lambda: consuming.received >= 8)
        await _until_acknowledged(stream)
    found = inbox.rows("select kind, count(*) as number from holdfast.inbox group by kind order by kind")
    assert [(row["kind"], row["number"]) for row in found] == [
        ("@unreadable", 2), ("shop/order.lost", 1), ("shop/order.paid", 1),
    ]  # fmt: skip
    assert await stream.unacknowledged() == 0, "nothing is rejected"


async def test_a_drain_stores_and_acknowledges_what_was_fetched(inbox: Inbox, stream: Stream) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    consumer = consumer_of(hf)
    fetched, go_on = asyncio.Event(), asyncio.Event()
    fetch = consumer.fetch

    async def slow() -> Sequence[Incoming]:
        messages = await fetch()
        fetched.set()
        await go_on.wait()
        return messages

    consumer.fetch = slow  # type: ignore[method-assign]
    await stream.add(*(fields(f"e{n}") for n in range(50)))
    async with pumping(hf) as consuming:
        await fetched.wait()
        consuming.drain()
        go_on.set()
    assert consumer.calls == ["open", "fetch", "acknowledge 50", "close"]
    assert await stream.unacknowledged() == 0
    assert len(ids(inbox)) == 50


async def test_a_broker_that_is_away(
    inbox: Inbox, redis_server: RedisServer, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    await stream.add(fields("e1"))
    with caplog.at_level(logging.INFO, "holdfast.receiving"):
        async with pumping(hf):
            await count(inbox, 1)
            redis_server.kill()
            await until(lambda: consumer_of(hf).calls.count("open") > 4)
            redis_server.start()
            await stream.add(fields("e2"))
            await count(inbox, 2)
            await until(lambda: "fetching again" in caplog.text)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines] == ["WARNING", "INFO"], "one line per outage, one when it is over"
    assert lines[0][1].endswith("; trying again") and "fetching again, after" in lines[1][1]


@pytest.mark.direct
@pytest.mark.parametrize("holds", [30.0, 0.2], ids=["short", "long"])
async def test_without_a_database_nothing_is_fetched(
    inbox: Inbox,
    stream: Stream,
    holds: float,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_module, "HOLDS", holds)
    with Proxy(inbox.url) as proxy:
        hf = application(proxy.url, stream.url, stream.name)
        consumer = consumer_of(hf)
        await stream.add(fields("e1"))
        with caplog.at_level(logging.INFO, "holdfast.receiving"):
            async with pumping(hf, deadline=2):
                await count(inbox, 1)
                proxy.silence(refuse=True)
                await stream.add(fields("e2"))
                await until(lambda: "could not be stored" in caplog.text)
                if holds < 1:
                    await until(lambda: consumer.calls[-1] == "close")
                calls = len(consumer.calls)
                await asyncio.sleep(0.5)
                assert len(consumer.calls) == calls, "it does not fetch"
                assert await stream.unacknowledged() == 1
                await stream.add(fields("e3"))
                proxy.speak()
                await count(inbox, 3)
    assert sorted(ids(inbox)) == ["e1", "e2", "e3"]
    assert await stream.unacknowledged() == 0
    lines = [record.levelname for record in caplog.records if record.name == "holdfast.receiving"]
    assert lines == ["WARNING", "INFO"]


async def test_an_error_of_a_consumer_does_not_end_the_worker(
    inbox: Inbox, stream: Stream, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in it, a call that never returns, an acknowledgement that fails: the messages come again."""
    monkeypatch.setattr(loop_module, "ANSWERS_WITHIN", 1.0)
    hf = application(inbox.url, stream.url, stream.name)
    consumer = consumer_of(hf)
    acknowledge, ways = consumer.acknowledge, iter(["bug", "hang", "away", "fine"])

    async def troubled(messages: Sequence[Incoming]) -> None:
        match next(ways, "fine"):
            case "bug":
                raise ZeroDivisionError
            case "hang":
                await asyncio.Event().wait()
            case "away":
                raise Away("gone")
            case _:
                await acknowledge(messages)

    consumer.acknowledge = troubled  # type: ignore[method-assign]
    await stream.add(*(fields(f"e{n}") for n in range(10)))
    async with pumping(hf) as consuming:
        await until(lambda: consuming.received >= 10)
    assert sorted(ids(inbox)) == sorted(f"e{n}" for n in range(10))
    lines = [
        record for record in caplog.records if record.name == "holdfast.receiving" and record.levelno > logging.INFO
    ]
    assert lines[0].exc_info, "of what is no outage, where it happened"
    assert len(lines) <= 3


async def test_a_consumer_that_cannot_work_ends_its_loop(inbox: Inbox, stream: Stream) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    consumer = consumer_of(hf)

    async def no_library() -> None:
        raise ConfigurationError("pip install 'holdfast[redis]'")

    consumer.open = no_library  # type: ignore[method-assign]
    worker = served(hf)
    consuming = Consuming(worker.database, worker.consumers, "w1", Occurrences())
    ended: list[asyncio.Task[None]] = []
    consuming.start(ended.append)
    await until(lambda: bool(ended))
    assert isinstance(ended[0].exception(), ConfigurationError)
    await consuming.stop()


def test_which_workers_run_it() -> None:
    hf = Holdfast("postgresql://nowhere.invalid/none")

    @hf.task(queue="mail")
    async def send() -> None: ...

    @hf.on_event("a", source="bank", queue="money")
    async def handle(event: Event[Any]) -> None: ...

    hf.consume(GroupConsumer("redis://x", "s"), source="shop")
    assert list(served(hf).queues) == ["in.bank", "in.shop", "mail", "money"]
    assert len(served(hf).consumers) == 1
    assert served(hf, ["mail", "in.bank"]).consumers == []
    assert len(served(hf, ["in.shop"]).consumers) == 1
    with pytest.raises(ConfigurationError, match="consumer: expected one such as NatsConsumer"):
        hf.consume("redis://x", source="shop")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="stream s is there already"):
        hf.consume(consumer_of(hf), source="other")


# Killed


def start(inbox: Inbox, stream: Stream, log: Path, probes: str = "") -> subprocess.Popen[bytes]:
    address = base64.b64encode(inbox.url.encode()).decode()
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.receiving.pump", address, stream.url, stream.name],
            cwd=ROOT, env={**os.environ, "HOLDFAST_PROBES": probes}, stdout=file, stderr=file,
        )  # fmt: skip


@pytest.mark.faults
@pytest.mark.parametrize("point", ["receive.before", "receive.after", "acknowledge.before", "acknowledge.after"])
async def test_killed_here_nothing_is_lost_and_nothing_is_there_twice(
    inbox: Inbox, stream: Stream, tmp_path: Path, point: str
) -> None:
    marker, log = tmp_path / "killed", tmp_path / "log"
    expected = [f"e{n}" for n in range(300)]
    await stream.add(*map(fields, expected))
    first = start(inbox, stream, log, f"{point}=kill@{marker}")
    second: subprocess.Popen[bytes] | None = None
    try:
        assert await asyncio.to_thread(first.wait, 60) == -signal.SIGKILL, log.read_text()
        assert marker.exists()
        stored = len(ids(inbox))
        assert stored == (0 if point == "receive.before" else 100)
        assert await stream.unacknowledged() == (200 if point == "acknowledge.after" else 300)
        second = start(inbox, stream, log)
        await count(inbox, 300)
        await _until_acknowledged(stream)
        second.terminate()
        assert await asyncio.to_thread(second.wait, 60) == 0, log.read_text()
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    assert sorted(ids(inbox)) == sorted(expected)


async def _until_acknowledged(stream: Stream) -> None:
    async with asyncio.timeout(60):
        while await stream.unacknowledged():
            await asyncio.sleep(0.02)


@pytest.mark.faults
async def test_two_of_them_killed_now_and_then(inbox: Inbox, stream: Stream, tmp_path: Path) -> None:
    """Two processes share the stream, each killed several times while messages come, some of them twice."""
    log = tmp_path / "log"
    expected = [f"e{n}" for n in range(1500)]
    running = [start(inbox, stream, log) for _ in range(2)]
    try:
        for turn in range(6):
            some = expected[turn * 250 : turn * 250 + 250]
            await stream.add(*map(fields, some), *map(fields, some[:50]))
            await count(inbox, turn * 250 + 1)
            victim = running.pop(0)
            victim.kill()
            victim.wait()
            running.append(start(inbox, stream, log))
        await count(inbox, len(expected))
        await _until_acknowledged(stream)
    finally:
        for process in running:
            process.terminate()
            try:
                process.wait(25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    assert sorted(ids(inbox)) == sorted(expected), log.read_text()


@pytest.mark.faults
@pytest.mark.parametrize("point", ["receive.before", "receive.after"])
def test_a_receiver_killed_here_and_a_sender_that_tries_again(inbox: Inbox, tmp_path: Path, point: str) -> None:
    import urllib.request

    from tests.support.hooks import plain_body, signed

    marker, log = tmp_path / "killed", tmp_path / "log"
    body = plain_body(order_id=1)
    headers = signed(body)
    statuses: list[int] = []
    for probes in (f"{point}=kill@{marker}", ""):
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.receiving.hooked", base64.b64encode(inbox.url.encode()).decode()],
                cwd=ROOT, env={**os.environ, "HOLDFAST_PROBES": probes}, stdout=subprocess.PIPE, stderr=file,
            )  # fmt: skip
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            for _ in range(2 if not probes else 1):
                request = urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers)
                try:
                    with urllib.request.urlopen(request, timeout=20) as answer:
                        statuses.append(answer.status)
                except OSError:
                    statuses.append(0)
        finally:
            if not probes:
                process.terminate()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()
        if probes:
            wait_until(marker.exists)
            assert len(ids(inbox)) == (1 if point == "receive.after" else 0)
    assert statuses == [0, 204, 204], log.read_text()
    assert len(ids(inbox)) == 1


async def test_unreadable_messages_of_a_stream_that_was_made_again(inbox: Inbox, stream: Stream) -> None:
    """It counts from the start again, so what the broker calls a message is no name for it."""
    hf = application(inbox.url, stream.url, stream.name)
    async with redis.Redis.from_url(stream.url) as client:
        for number, body in enumerate((b"{", b"[", b"["), 1):
            await client.xadd(stream.name, {"data": body}, id="1-1")
            async with pumping(hf) as consuming:
                await until(lambda consuming=consuming: consuming.received == 1)  # type: ignore[misc]
            await client.delete(stream.name)
            assert inbox.one("select count(*) from holdfast.inbox where kind = '@unreadable'") == min(number, 2)


def holders(inbox: Inbox) -> list[tuple[str, int]]:
    return [(row["holder"], row["generation"]) for row in inbox.rows("select * from holdfast.consumers")]


async def test_one_worker_at_a_time_fetches_and_another_takes_over(inbox: Inbox, stream: Stream) -> None:
    one, two = (application(inbox.url, stream.url, stream.name) for _ in range(2))
    async with pumping(one, "first") as first:
        await until(lambda: holders(inbox) == [("first", 1)])
        async with pumping(two, "second") as second:
            await stream.add(*(fields(str(n)) for n in range(50)))
            await until(lambda: len(ids(inbox)) == 50)
            await until(lambda: first.received == 50)  # they are acknowledged after that
            assert second.received == 0
            await first.stop()
            await until(lambda: holders(inbox) == [("second", 2)])
            await stream.add(*(fields(str(n)) for n in range(50, 80)))
            await until(lambda: len(ids(inbox)) == 80)
            await until(lambda: second.received == 30)
    assert ids(inbox) == [str(n) for n in range(80)], "in the order of the stream"


async def test_a_holder_that_is_dead_in_the_registry_is_followed_at_once(inbox: Inbox, stream: Stream) -> None:
    hf = application(inbox.url, stream.url, stream.name)
    shown = consumer_of(hf).shown
    inbox.rows(
        "insert into holdfast.consumers (name, holder, expires_at)"
        " values ('shop: ' || %s, 'gone', now() + interval '1 hour')",
        shown,
    )
    async with pumping(hf, "next"):
        await asyncio.sleep(1.5)
        assert holders(inbox) == [("gone", 1)]
        inbox.rows("insert into holdfast.workers values ('gone', 'dead', now())")
        await until(lambda: holders(inbox) == [("next", 2)])


async def test_what_a_holder_that_was_taken_over_has_fetched_is_not_stored(inbox: Inbox, stream: Stream) -> None:
    """It stood still; the other one has stored it, and what came after it."""
    hf = application(inbox.url, stream.url, stream.name)
    consumer = consumer_of(hf)
    fetch, taken = consumer.fetch, asyncio.Event()

    async def fetch_and_stand_still() -> Any:
        messages = await fetch()
        if messages and not taken.is_set():
            inbox.rows("update holdfast.consumers set holder = 'other', generation = 9, expires_at = now() + '5 s'")
            taken.set()
        return messages

    consumer.fetch = fetch_and_stand_still  # type: ignore[method-assign]
    async with pumping(hf, "stale"):
        await stream.add(fields("1"), fields("2"))
        await taken.wait()
        await asyncio.sleep(0.5)
        assert ids(inbox) == []
        assert await stream.unacknowledged() == 2
        await until(lambda: ids(inbox) == ["1", "2"])
        assert holders(inbox) == [("stale", 10)]
