"""The relay: what each verdict does, order, outages, draining."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.outbox.conftest import Sink
from tests.support.stopwatch import taken_between
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Backoff, ConfigurationError, Holdfast
from holdfast.inbox.claimer import Claimer
from holdfast.loading import served
from holdfast.model.event import Delivered, Message, Refused, Verdict
from holdfast.model.occurrences import Occurrences, Subscriber
from holdfast.outbox import loading
from holdfast.transports import Settle, Unavailable
from holdfast.worker.embedded import EmbeddedWorker
from holdfast.worker.leases.ledger import CAPACITY
from holdfast.worker.relay import connection as connecting
from holdfast.worker.relay import relay
from holdfast.worker.relay.connection import Connection
from holdfast.worker.settings import WorkerSettings

FAST: dict[str, Any] = {"lease": 30, "housekeeping": 0.2, "poll": 0.05}
AT_ONCE = Backoff(base=0.01, cap=0.01, jitter=0)


async def publish(hf: Holdfast, numbers: range, keys: int = 0) -> list[UUID]:
    return [(await hf.publish("order.paid", {"n": n}, key=f"k{n % keys}" if keys else None)).id for n in numbers]


def statuses(inbox: Inbox) -> dict[str, int]:
    return {row["status"]: row["n"] for row in inbox.rows("select status, count(*) n from holdfast.outbox group by 1")}


def take_all_leases(inbox: Inbox) -> None:
    """As a sweep does when nobody has renewed them, because the process stood still."""
    inbox.rows(
        "update holdfast.inbox set status = 'pending', claimed_by = null, claimed_at = null,"
        " lease_expires_at = null, available_at = clock_timestamp() returning id"
    )


async def test_every_event_is_delivered_as_it_was_published(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.judge = lambda message: Delivered(reference="stream:7", details={"ms": 3})
    made = await hf.publish("order.paid", {"n": 1}, key="order:1", version=2, tenant="acme", headers={"trace": "x"})
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 1})
    (message,) = sink.messages
    (event,) = inbox.rows("select * from holdfast.events")
    (row,) = inbox.rows("select * from holdfast.outbox")
    assert (message.id, message.event_id, message.delivery) == (str(made.id), str(made.id), row["delivery"])
    assert (message.type, message.data, message.version, message.attempt) == ("order.paid", b'{"n": 1}', 2, 1)
    assert (message.key, message.tenant, message.headers) == ("order:1", "acme", {"trace": "x"})
    assert (message.at, message.source) == (event["published_at"], event["source"])
    assert row["result"] == {"reference": "stream:7", "ms": 3}
    assert row["lag"].total_seconds() < 60


async def test_batches_are_sent_whole_and_in_order(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.parallel = 1
    await publish(hf, range(250))
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 250})
    assert sink.numbers == list(range(250))
    assert max(sink.batches) == 100


async def test_events_that_are_large_together_are_loaded_in_parts(
    hf: Holdfast, inbox: Inbox, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.relay.relay.BYTES", 20_000)  # for two senders
    monkeypatch.setattr("holdfast.worker.relay.relay.LEAST_SHARE", 1)
    hf.relay("order.*", to=sink, name="bus")
    for n in range(20):
        await hf.publish("order.paid", {"text": "x" * (30_000 if n == 7 else 3_000), "n": n})
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 20})
    assert max(sink.batches) <= 3
    assert {len(message.data) > 20_000 for message in sink.messages} == {True, False}


async def test_many_senders_share_what_a_route_may_load(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for a slow server, as webhooks do, and holds what it has loaded for so long."""
    monkeypatch.setattr("holdfast.worker.relay.relay.BYTES", 400_000)
    monkeypatch.setattr("holdfast.worker.relay.relay.LEAST_SHARE", 20_000)
    held: list[int] = []
    over = asyncio.Event()

    class Slow(Sink):
        batch, parallel = 10, 32

        async def send(self, batch: Sequence[Message], settle: Settle) -> None:
            held.append(sum(len(message.data) for message in batch))
            await over.wait()
            await super().send(batch, settle)

    hf.relay("order.*", to=Slow(), name="bus")
    for n in range(200):
        await hf.publish("order.paid", {"text": "x" * 9_000, "n": n})
    async with hf.worker(**FAST):
        await until(lambda: len(held) == 32)
        assert max(held) <= 20_000 and sum(held) <= 32 * 20_000
        over.set()
        await until(lambda: statuses(inbox) == {"completed": 200})


async def test_an_ordered_route_keeps_the_order_of_each_key(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(100), keys=5)

    def wait_a_little(message: Message) -> Verdict:
        return (
            Refused(reason="later", delay=0.01)
            if message.attempt == 1 and message.data.endswith(b"7}")
            else Delivered()
        )

    sink.judge = wait_a_little
    async with hf.worker(**FAST):
        await publish(hf, range(100, 200), keys=5)
        await until(lambda: statuses(inbox) == {"completed": 200})
    accepted: dict[str, list[int]] = defaultdict(list)
    for message, n in zip(sink.messages, sink.numbers, strict=True):
        assert message.key is not None
        if n not in accepted[message.key]:
            accepted[message.key].append(n)
    assert all(numbers == sorted(numbers) and len(numbers) == 40 for numbers in accepted.values())


async def test_a_row_that_is_claimed_again_while_it_is_being_sent_takes_one_place(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.gate.clear()
    await publish(hf, range(1))
    async with hf.worker(**FAST) as worker:
        await until(lambda: sink.sending == 1)
        take_all_leases(inbox)
        await until(lambda: sink.sending == 2)
        sink.gate.set()
        await until(lambda: statuses(inbox) == {"completed": 1})
        await until(lambda: not list(worker.engine.ledger.held()))
        assert worker.engine.tally.counters.lease_lost == 1
    assert sink.numbers == [0, 0], "at least once"


async def test_a_row_that_ended_while_its_events_were_loaded_leaves_no_convoy_behind(
    hf: Holdfast, inbox: Inbox, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next row in its place in the ledger would end as a row of that convoy."""
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    sink.judge = lambda m: Refused(reason="no", final=True) if m.data == b'{"n": 2}' else Delivered()
    sink.gate.clear()
    load, loads, loaded = loading.load, 0, asyncio.Event()

    async def late_the_second_time(*arguments: Any) -> Any:
        nonlocal loads
        loads += 1
        if loads == 2:
            await loaded.wait()
        return await load(*arguments)

    monkeypatch.setattr(relay, "load", late_the_second_time)
    await publish(hf, range(2), keys=1)
    async with hf.worker(**FAST):
        await until(lambda: sink.sending == 1)
        take_all_leases(inbox)
        await until(lambda: loads == 2)
        sink.gate.set()  # the first message arrives, which ends the row that is being loaded
        await until(lambda: statuses(inbox) == {"completed": 2})
        loaded.set()
        await publish(hf, range(2, 3))
        await until(lambda: statuses(inbox) == {"completed": 2, "dead_letter": 1})
    assert sorted(sink.numbers) == [0, 1, 2], "no message of the row that had ended"


async def test_a_refusal_costs_an_attempt_of_that_event_alone(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", max_attempts=3, retry=AT_ONCE)
    sink.judge = lambda m: Refused(reason="unroutable", details={"code": 312}) if m.data == b'{"n": 3}' else Delivered()
    await publish(hf, range(10))
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 9, "dead_letter": 1})
    (dead,) = inbox.rows("select * from holdfast.outbox where status = 'dead_letter'")
    assert (dead["attempts"], dead["last_error"]) == (3, "Refused: unroutable")
    assert [error["details"] for error in dead["errors"]] == [{"code": 312}] * 3
    assert [m.attempt for m in sink.messages if m.data == b'{"n": 3}'] == [1, 2, 3]


async def test_a_final_refusal_is_a_dead_letter_at_once(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.judge = lambda m: Refused(reason="2 MiB is too large", final=True)
    await publish(hf, range(1))
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"dead_letter": 1})
    assert len(sink.messages) == 1


async def test_while_the_destination_is_away_nothing_is_claimed_and_no_attempt_is_lost(
    hf: Holdfast, inbox: Inbox, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    hf.relay("order.*", to=sink, name="bus", max_attempts=1)
    sink.away = True
    await publish(hf, range(50))
    async with hf.worker(**FAST):
        await until(lambda: "cannot be reached" in caplog.text)
        await asyncio.sleep(1)
        rows = inbox.rows("select distinct status::text, attempts, lease_generation from holdfast.inbox")
        assert rows == [{"status": "pending", "attempts": 0, "lease_generation": 0}]
        assert caplog.text.count("cannot be reached") == 1, "one line per outage"
        sink.away = False
        await until(lambda: statuses(inbox) == {"completed": 50})
    assert "sink is connected again" in caplog.text
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.outbox")} == {1}


async def test_an_outage_in_the_middle_costs_no_attempt(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", max_attempts=1)
    left = 120

    def fall_silent(message: Message) -> Verdict | None:
        nonlocal left
        left -= 1
        sink.away = left <= 0
        return Delivered() if left > 0 else None

    sink.judge = fall_silent
    await publish(hf, range(300))
    async with hf.worker(**FAST):
        await until(lambda: sink.away)
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 0)
        assert inbox.one("select max(attempts) from holdfast.inbox") == 0
        sink.judge = lambda message: Delivered()
        sink.away = False
        await until(lambda: statuses(inbox) == {"completed": 300})
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.outbox")} == {1}
    assert set(sink.numbers) == set(range(300))


async def test_an_event_that_breaks_its_connection_each_time_becomes_a_dead_letter_alone(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    """Otherwise it would break the connection of its neighbours for ever.

    A loss counts only if a neighbour was answered since the one before: without any, it may be an outage. So there are
    always some.
    """
    hf.relay("order.*", to=sink, name="bus", max_attempts=2, retry=AT_ONCE)
    sink.judge = lambda message: None if message.data == b'{"n": 5}' else Delivered()
    await publish(hf, range(20))
    total = 20
    async with hf.worker(**FAST), asyncio.timeout(100):
        while not statuses(inbox).get("dead_letter"):
            await publish(hf, range(total, total + 1))
            total += 1
            await asyncio.sleep(0.1)
        await until(lambda: statuses(inbox) == {"completed": total - 1, "dead_letter": 1})
    (dead,) = inbox.rows("select * from holdfast.outbox where status = 'dead_letter'")
    assert dead["data"] == {"n": 5}
    assert "ConnectionLost: the connection was lost three times while this was sent" in dead["last_error"]
    assert {
        row["attempts"] for row in inbox.rows("select attempts from holdfast.outbox where status = 'completed'")
    } == {1}


async def test_a_destination_that_takes_nothing_of_one_stream_now_blames_no_event(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although others get through, for as long as it lasts."""
    monkeypatch.setattr(connecting, "backoff", lambda failures: 0.01)
    monkeypatch.setattr(connecting, "UNAVAILABLE_AGAIN", 0.01)
    sink = TwoStreams()
    hf.relay("order.*", to=sink, name="bus", max_attempts=1)
    for _ in range(3):
        await hf.publish("order.away", {})
    async with hf.worker(**FAST), asyncio.timeout(100):
        while sink.answers < 12:
            await publish(hf, range(1))
            await asyncio.sleep(0.1)
        away = inbox.rows("select status from holdfast.outbox where type = 'order.away'")
        assert {row["status"] for row in away} <= {"pending", "processing"}
        sink.without_leader = False
        await until(lambda: set(statuses(inbox)) == {"completed"})
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.outbox")} == {1}


class TwoStreams(Sink):
    """Behind it are two streams, one of which has no leader."""

    without_leader = True
    answers = 0
    """How often it has said so."""

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        taken = [message for message in batch if not (self.without_leader and message.type == "order.away")]
        await super().send(taken, settle)
        if len(taken) < len(batch):
            self.answers += 1
            raise Unavailable("the stream of order.away is away")


async def test_batches_under_way_arrive_while_a_stream_takes_nothing(hf: Holdfast, inbox: Inbox) -> None:
    """The connection is not lost, so nothing has to be sent twice."""
    sink = OneSlow()
    hf.relay("order.*", to=sink, name="bus")
    await hf.publish("order.paid", {"n": 1})
    async with hf.worker(**FAST), asyncio.timeout(60):
        await sink.began.wait()
        await hf.publish("order.away", {})
        while not sink.answers:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # enough to be cancelled
        sink.slow.set()
        await until(lambda: statuses(inbox).get("completed") == 1)
        sink.without_leader = False
        await until(lambda: statuses(inbox) == {"completed": 2})
    assert sink.begun == 1


class OneSlow(TwoStreams):
    """Batches of one; those of the stream that has a leader wait for `slow`."""

    batch = 1

    def __init__(self) -> None:
        super().__init__()
        self.began, self.slow = asyncio.Event(), asyncio.Event()
        self.begun = 0

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        if batch[0].type == "order.paid":
            self.begun += 1
            self.began.set()
            await self.slow.wait()
        await super().send(batch, settle)


async def test_one_route_that_is_away_holds_up_no_other(hf: Holdfast, inbox: Inbox) -> None:
    here, away = Sink(), Sink()
    away.away = True
    hf.relay("order.*", to=here, name="here")
    hf.relay("order.*", to=away, name="away")
    ran: list[int] = []

    @hf.task
    async def job(n: int) -> None:
        ran.append(n)

    async with hf.worker(**FAST):
        await publish(hf, range(100))
        await job.enqueue(1)
        await until(lambda: len(here.messages) == 100 and ran == [1])
        assert away.messages == []
        away.away = False
        await until(lambda: statuses(inbox) == {"completed": 200})


async def test_a_drain_lets_what_is_in_flight_arrive_and_hands_back_the_rest(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.batch, sink.parallel = 10, 1
    sink.gate.clear()
    await publish(hf, range(100))
    async with hf.worker(**FAST):
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 100)
        await until(lambda: sink.sending > 0)
        asyncio.get_running_loop().call_later(1, sink.gate.set)
    assert len(sink.messages) == 10
    assert statuses(inbox) == {"completed": 10, "pending": 90}
    assert inbox.one("select max(attempts) from holdfast.inbox") == 0
    assert sink.closed >= 1


async def test_a_worker_may_serve_routes_alone(inbox: Inbox, sink: Sink) -> None:
    """Without any task, or by its --queue."""
    hf = Holdfast(inbox.url)
    hf.relay("order.*", to=sink, name="bus")
    hf.relay("order.*", to=Sink(), name="other")
    async with hf.worker(**FAST, queues=["out.bus"]) as worker:
        await publish(hf, range(3))
        await until(lambda: len(sink.messages) == 3)
        (row,) = inbox.rows("select metadata from holdfast.workers where id = %s", worker.name)
        assert row["metadata"]["queues"] == ["out.bus"]
    assert inbox.one("select count(*) from holdfast.inbox where queue = 'out.other'") == 3
    await hf.close()


async def test_of_two_workers_in_one_process_one_sends_and_the_other_stands_by(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    """A transport is one object, with one connection."""
    hf.relay("order.*", to=sink, name="bus")
    async with hf.worker(**FAST):
        async with hf.worker(**FAST):
            await publish(hf, range(20))
            await until(lambda: statuses(inbox) == {"completed": 20})
            assert sink.opened - sink.closed == 1
        await publish(hf, range(20))
        await until(lambda: statuses(inbox) == {"completed": 40})
    assert sink.opened == sink.closed


async def test_an_event_that_is_gone_is_a_dead_letter_that_says_so(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    await publish(hf, range(3))
    inbox.rows("delete from holdfast.events where data = '{\"n\": 1}'")
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 2, "dead_letter": 1})
    assert "its event is not in holdfast.events" in inbox.one(
        "select last_error from holdfast.outbox where status = 'dead_letter'"
    )


@pytest.mark.parametrize("payload", ['{"type": "@deliver"}', '{"type": "@deliver", "event": 1, "on": "x"}'])
async def test_a_row_that_was_written_by_hand_and_cannot_be_read_is_a_dead_letter(
    hf: Holdfast, inbox: Inbox, sink: Sink, payload: str
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    await publish(hf, range(3))
    inbox.rows("select holdfast.enqueue('@deliver', %s::jsonb - 'type', queue => 'out.bus')", payload)
    async with hf.worker(**FAST):
        await until(lambda: len(sink.messages) == 3)
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'dead_letter'") == 1)
    assert "its payload names no event" in inbox.one("select last_error from holdfast.inbox")


async def test_a_statement_that_the_server_rejects_costs_an_attempt_of_its_row_alone(
    hf: Holdfast, inbox: Inbox, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.relay("order.*", to=sink, name="bus", max_attempts=2, retry=AT_ONCE)
    await publish(hf, range(5))
    load = loading.load

    async def reject(runner: Any, claims: Any, *arguments: Any) -> Any:
        rows = inbox.rows("select count(*) as n from holdfast.events where data = '{\"n\": 2}' and id = any(%s)",
                          [delivery.event for delivery in arguments[0]])  # fmt: skip
        if rows[0]["n"]:
            raise asyncpg.DataError("cannot be read")
        return await load(runner, claims, *arguments)

    monkeypatch.setattr(relay, "load", reject)
    async with hf.worker(**FAST) as worker:
        await until(lambda: statuses(inbox) == {"completed": 4, "dead_letter": 1})
        await until(lambda: not list(worker.engine.ledger.held()))
        assert worker.engine.tally.counters.lease_lost == 0
        assert sorted(worker.engine.ledger._free) == list(range(CAPACITY)), "each place is free once"
    (dead,) = inbox.rows("select * from holdfast.outbox where status = 'dead_letter'")
    assert (dead["data"], dead["last_error"], dead["attempts"]) == ({"n": 2}, "DataError: cannot be read", 2)


async def test_a_new_route_is_named(hf: Holdfast, inbox: Inbox, sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    hf.relay("order.*", to=sink, name="bus")
    async with hf.worker(**FAST):
        assert "route bus is new" in caplog.text
    caplog.clear()
    hf.relay("a", to=Sink(), name="second", ordered=True)
    hf._routes["bus"] = hf._routes["second"].__class__("bus", ("a", "b"), sink)
    async with hf.worker(**FAST):
        assert "route second is new" in caplog.text
        assert "route bus" not in caplog.text
    assert inbox.one("select types from holdfast.routes where name = 'bus'") == ["a", "b"], "as the code says now"


async def test_a_partition_that_a_delivery_needs_is_not_dropped(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    inbox.rows(
        "create table holdfast.events_20200101 partition of holdfast.events"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    await publish(hf, range(2))
    inbox.rows("update holdfast.events set published_at = '2020-01-01 12:00Z'")
    inbox.rows("""update holdfast.inbox set payload = payload || '{"on": "2020-01-01"}'""")
    assert inbox.one("select holdfast.drop_event_partitions(30)") == 0
    async with hf.worker(**FAST):
        await until(lambda: len(sink.messages) == 2)
        await until(lambda: inbox.one("select count(*) from holdfast.inbox") == 0)
    inbox.one("select holdfast.drop_event_partitions(30)")  # perhaps the worker has dropped it already
    assert inbox.one("select to_regclass('holdfast.events_20200101')::text") is None


@pytest.mark.direct
async def test_the_first_event_after_a_quiet_time_is_sent_at_once(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    """It is woken, also while jobs keep the worker awake."""
    hf.relay("order.*", to=sink, name="bus")

    @hf.task
    async def job() -> None: ...

    async with hf.worker(lease=60, poll=20):
        await until(lambda: inbox.one("select metadata -> 'counters' -> 'listening' from holdfast.workers") is True)
        await asyncio.sleep(0.5)
        for _ in range(3):
            await job.enqueue()
            await publish(hf, range(1))
            await asyncio.sleep(0.6)
        await until(lambda: statuses(inbox) == {"completed": 3})
    rows = inbox.rows("select lag, finished_at from holdfast.outbox")
    lags = [taken_between(row["finished_at"] - row["lag"], row["finished_at"]) for row in rows]
    assert len(lags) == 3
    assert max(lag.own for lag in lags) < 1, "; ".join(map(str, lags))


# What is on its way when something else happens


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Answers to claims of routes come when this is set, and then they take a while."""
    claim, answers = Claimer.claim, asyncio.Event()

    async def answer_late(self: Claimer, limit: int) -> Any:
        batch = await claim(self, limit)
        if batch.claims and "out.bus" in self._queues:
            await answers.wait()
            await asyncio.sleep(0.3)
        return batch

    monkeypatch.setattr(Claimer, "claim", answer_late)
    return answers


async def test_a_claim_that_is_answered_after_the_drain_began_is_handed_back(
    hf: Holdfast, inbox: Inbox, sink: Sink, answers: asyncio.Event
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    await publish(hf, range(20))
    async with hf.worker(**FAST, drain=60):
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 20)
        answers.set()
        began = time.monotonic()
    assert time.monotonic() - began < 30, "it does not wait for what it never sends"
    assert statuses(inbox) == {"pending": 20}


async def test_a_claim_that_is_answered_when_the_destination_is_away_is_left_to_others(
    hf: Holdfast, inbox: Inbox, sink: Sink, answers: asyncio.Event
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    sink.parallel = 1
    async with hf.worker(**FAST):
        await until(lambda: sink.opened == 1)
        await publish(hf, range(1))
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 1)
        sink.away = True
        answers.set()
        await publish(hf, range(1, 9))
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 0)
        sink.away = False
        await until(lambda: statuses(inbox) == {"completed": 9})


async def test_an_outage_in_which_connections_can_be_made_costs_no_attempt(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    """A broker with an alarm, or without a leader: it confirms nothing."""
    hf.relay("order.*", to=sink, name="bus", max_attempts=1)
    sink.judge = lambda message: None
    await publish(hf, range(20))
    async with hf.worker(**FAST):
        await until(lambda: sink.opened > 6)
        assert set(statuses(inbox)) <= {"pending", "processing"}
        sink.judge = lambda message: Delivered()
        await until(lambda: statuses(inbox) == {"completed": 20})


async def test_a_transport_belongs_to_one_route(hf: Holdfast, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    with pytest.raises(ConfigurationError, match="this transport belongs to another route"):
        hf.relay("invoice.*", to=sink, name="other")


async def test_posts_share_the_room_of_the_ledger(hf: Holdfast, inbox: Inbox) -> None:
    """Claims in progress at several posts must not bring more rows than there are places."""
    sinks = [Sink(), Sink()]
    for name, sink in zip(("bus", "other"), sinks, strict=True):
        hf.relay("order.*", to=sink, name=name)
        sink.gate.clear()
    await publish(hf, range(200))
    worker = EmbeddedWorker(served(hf), WorkerSettings.of(**FAST))
    worker.engine.ledger._free = worker.engine.ledger._free[:150]
    await worker.start()
    try:
        await until(lambda: inbox.one("select count(*) from holdfast.inbox where status = 'processing'") == 150)
        for sink in sinks:
            sink.gate.set()
        await until(lambda: statuses(inbox) == {"completed": 400})
    finally:
        await worker.stop()
    assert inbox.one("select max(attempts) from holdfast.outbox") == 1


@pytest.mark.parametrize("failures", [1, 7, 100_000], ids=["first", "some", "after days"])
async def test_the_pause_between_two_tries_grows_and_has_a_limit(sink: Sink, failures: int) -> None:
    connection = Connection("bus", sink, Occurrences(), asyncio.Event())
    connection._failures = failures
    assert 0 < connection._longer() <= 10
    assert failures < 10 or connection._longer() > 5


class Said(Subscriber):
    def __init__(self) -> None:
        self.words: list[str] = []
        self.reached: list[bool] = []

    def connection_lost(self, route: str, destination: str, rows: int, error: BaseException) -> None:
        self.words.append("lost")

    def destination_away(self, route: str, destination: str, error: Exception) -> None:
        self.words.append("away")

    def destination_back(self, route: str, destination: str) -> None:
        self.words.append("back")

    def destination_unavailable(self, route: str, destination: str, rows: int, error: Exception) -> None:
        self.words.append("unavailable")

    def destination_reached(self, route: str, reached: bool) -> None:
        self.reached.append(reached)


async def test_an_outage_is_reported_once_however_often_it_connects_in_between(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "backoff", lambda failures: 0.0)
    said = Said()
    connection = Connection("bus", sink, Occurrences(said), asyncio.Event())

    async def opens() -> bool:
        opened = await connection.open()
        await connection.close()
        return opened

    for _ in range(3):  # it breaks with each message
        assert await opens()
        connection.lost(1, ConnectionResetError())
    assert said.words == ["lost", "back"]
    sink.away = True
    assert not await opens() and not await opens()
    sink.away = False
    assert await opens() and await opens()
    connection.works()
    connection.lost(1, ConnectionResetError())
    assert said.words == ["lost", "back", "away", "back", "lost"]
    said.words.clear()
    for _ in range(3):  # it can be reached now and then, and breaks with each message
        sink.away = True
        assert not await opens()
        sink.away = False
        assert await opens()
        connection.lost(1, ConnectionResetError())
    assert said.words == ["away", "back"]
    assert said.reached == [False, True] * 4, "whoever counts hears of each change"
    monkeypatch.setattr(connecting, "SAY_AGAIN", 0.0)  # a minute later
    connection.lost(1, ConnectionResetError())
    assert said.words == ["away", "back", "lost"]


async def test_a_destination_of_which_a_part_takes_nothing_is_asked_once_a_second_and_reported_once(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, pauses = Said(), list[float]()
    connection = Connection("bus", sink, Occurrences(said), asyncio.Event())

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(connection, "_pause", pause)
    assert await connection.open()
    for _ in range(10):
        connection.lost(1, Unavailable("one of its streams has no leader"))
        await connection.close()
        assert await connection.open()
        connection.works()  # a batch without a message for that part
    assert said.words == ["unavailable"]
    assert len(pauses) == 10 and min(pauses) >= 1
    connection.lost(1, ConnectionResetError())  # something else
    await connection.close()
    assert await connection.open()
    assert said.words == ["unavailable", "lost", "back"]
    assert pauses[-1] < 1, "a lost connection is opened again soon"
    await connection.close()
