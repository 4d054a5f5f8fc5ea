"""Convoys: events of one key that are sent one after the other under the hold on the first."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.outbox.conftest import Sink
from tests.outbox.test_relay import AT_ONCE, FAST, publish, statuses
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.model.event import Delivered, Message, Refused, Verdict
from holdfast.model.job import Claim
from holdfast.model.outcome import Completed, Outcome
from holdfast.transports import Settle
from holdfast.worker.relay import convoy, relay
from holdfast.worker.relay.in_flight import InFlight


def number(message: Message) -> int:
    return int(message.data.partition(b'n":')[2].strip(b" }"))


class Broker:
    """Settles each message a moment later, in any order. It sees if two of one key are under way at the same time."""

    batch, parallel, shown = 100, 3, "broker"

    def __init__(self, judge: Callable[[Message], Verdict | None] = lambda message: Delivered()) -> None:
        self.judge = judge
        self.arrived: dict[str, list[int]] = defaultdict(list)
        """What it accepted, by key, each once: when it came first."""
        self.sent: list[int] = []
        self.together: list[str] = []
        self._under_way: set[str] = set()
        self._dice = random.Random(1)

    async def open(self) -> None:
        self._under_way.clear()

    async def close(self) -> None: ...

    async def send(self, batch: Sequence[Message], settle: Settle) -> None:
        for message in batch:
            if message.key in self._under_way:
                self.together.append(str(message.key))
            self._under_way.add(str(message.key))
        for message in self._dice.sample(batch, len(batch)):
            await asyncio.sleep(self._dice.choice([0, 0, 0.001]))
            self.sent.append(number(message))
            verdict = self.judge(message)
            if verdict is None:
                raise ConnectionResetError("lost")
            if isinstance(verdict, Delivered) and number(message) not in self.arrived[str(message.key)]:
                self.arrived[str(message.key)].append(number(message))
            self._under_way.discard(str(message.key))
            settle(message, verdict)

    def out_of_order(self) -> list[str]:
        return [key for key, numbers in self.arrived.items() if numbers != sorted(numbers)]


def convoys(inbox: Inbox) -> list[int]:
    """The lengths of all convoys: rows of one have the fence of its head."""
    return [row["n"] for row in inbox.rows("select count(*) n from holdfast.archive group by fence order by 1")]


async def test_what_waits_behind_an_event_follows_it(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(60), keys=2)
    async with hf.worker(**FAST) as worker:
        await until(lambda: statuses(inbox) == {"completed": 60})
        counters = worker.engine.tally.counters
        assert (counters.claimed, counters.started, counters.completed) == (60, 60, 60)
    assert [n for n in sink.numbers if n % 2] == list(range(1, 60, 2))
    assert [n for n in sink.numbers if n % 2 == 0] == list(range(0, 60, 2))
    assert max(sink.batches) == 2
    assert max(convoys(inbox)) == convoy.LENGTH
    ended = inbox.rows("select attempts, lease_generation from holdfast.archive")
    assert {tuple(row.values()) for row in ended} == {(1, 1)}


async def test_one_of_a_key_is_under_way_at_a_time(hf: Holdfast, inbox: Inbox) -> None:
    broker = Broker()
    hf.relay("order.*", to=broker, name="bus", ordered=True)
    await publish(hf, range(200), keys=5)
    async with hf.worker(**FAST):
        await publish(hf, range(200, 300), keys=5)
        await until(lambda: statuses(inbox) == {"completed": 300})
    assert not broker.together
    assert not broker.out_of_order()
    assert len(broker.sent) == 300


@pytest.mark.parametrize("on_failure", ["block", "skip"])
async def test_a_refusal_stops_the_convoy_and_costs_an_attempt_of_that_event_alone(
    hf: Holdfast, inbox: Inbox, sink: Sink, on_failure: Any
) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True, on_failure=on_failure, retry=AT_ONCE)
    refused: list[int] = []

    def judge(message: Message) -> Verdict:
        if number(message) == 4 and message.attempt <= 2:
            refused.append(message.attempt)
            return Refused(reason="not yet")
        return Delivered()

    sink.judge = judge
    await publish(hf, range(10), keys=1)
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 10})
    # First behind the others, where it costs nothing: it was not claimed. Then twice as the head of its key.
    assert refused == [1, 1, 2]
    attempts = {row["attempts"] for row in inbox.rows("select attempts from holdfast.archive where errors is null")}
    (retried,) = inbox.rows(
        "select attempts, jsonb_array_length(errors) n from holdfast.archive where errors is not null"
    )
    assert (attempts, retried["attempts"], retried["n"]) == ({1}, 3, 2)
    if on_failure == "block":
        assert sink.numbers == [0, 1, 2, 3, 4, 4, 4, 4, 5, 6, 7, 8, 9]
    else:
        assert sorted(set(sink.numbers)) == list(range(10))
        assert [n for n in sink.numbers if n != 4] == [n for n in range(10) if n != 4]


async def test_a_connection_that_is_lost_halfway_costs_no_attempt_and_what_arrived_is_recorded(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(10), keys=1)
    lost: list[int] = []

    def judge(message: Message) -> Verdict | None:
        if number(message) == 5 and not lost:
            lost.append(5)
            return None
        return Delivered()

    sink.judge = judge
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 10})
    assert sink.numbers == list(range(10))
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.archive")} == {1}
    assert (lost, sink.opened) == ([5], 2)


async def test_an_event_that_breaks_its_connection_each_time_does_not_follow_others(
    hf: Holdfast, inbox: Inbox, sink: Sink
) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True, max_attempts=2, retry=AT_ONCE)
    sink.judge = lambda message: None if number(message) == 3 else Delivered()
    await publish(hf, range(8), keys=1)
    total = 8
    async with hf.worker(**FAST), asyncio.timeout(100):
        while not statuses(inbox).get("dead_letter"):  # a loss counts only if others are answered
            await publish(hf, range(total + 100, total + 101))
            total += 1
            await asyncio.sleep(0.1)
        await until(lambda: statuses(inbox) == {"completed": total - 1, "dead_letter": 1})
    assert [n for n in sink.numbers if n < 10] == [0, 1, 2, 4, 5, 6, 7]


async def test_a_drain_halfway_records_what_arrived_and_leaves_the_rest(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(10), keys=1)

    def judge(message: Message) -> Verdict:
        if number(message) == 3:
            sink.gate.clear()
        return Delivered()

    sink.judge = judge
    async with hf.worker(**FAST):
        await until(lambda: sink.sending == 5)
        asyncio.get_running_loop().call_later(1, sink.gate.set)
    assert sink.numbers == [0, 1, 2, 3, 4]
    assert statuses(inbox) == {"completed": 5, "pending": 5}
    assert {row["attempts"] for row in inbox.rows("select attempts from holdfast.inbox")} == {0}


async def test_nothing_of_a_convoy_is_recorded_when_its_lease_is_lost(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(10), keys=1)

    def judge(message: Message) -> Verdict:
        if number(message) == 3 and len(sink.messages) < 5:
            sink.gate.clear()
        return Delivered()

    sink.judge = judge
    async with hf.worker(**FAST) as worker:
        await until(lambda: sink.sending == 5)
        # As if another worker had taken it over, and died a moment later.
        inbox.rows(
            "update holdfast.inbox set lease_generation = lease_generation + 1, status = 'pending', claimed_by = null,"
            " attempts = 0 where status = 'processing' returning id"
        )
        sink.gate.set()
        await until(lambda: statuses(inbox) == {"completed": 10}, 60)
        assert worker.engine.tally.counters.lease_lost >= 1
    first: list[int] = []
    for n in sink.numbers:
        if n not in first:
            first.append(n)
    assert first == list(range(10))
    assert sink.numbers.count(0) == 2


async def test_a_convoy_that_takes_long_is_recorded_before_it_goes_on(
    hf: Holdfast, inbox: Inbox, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convoy, "LASTS", 0.0)
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    await publish(hf, range(6), keys=1)
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 6})
    assert (sink.numbers, convoys(inbox)) == (list(range(6)), [1] * 6)


async def test_convoys_of_large_events_are_shorter(
    hf: Holdfast, inbox: Inbox, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "BYTES", 20_000)  # for two senders
    monkeypatch.setattr("holdfast.worker.relay.relay.LEAST_SHARE", 1)
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    for n in range(20):
        await hf.publish("order.paid", {"a": "x" * 3_000, "n": n}, key=f"k{n % 2}")
    async with hf.worker(**FAST):
        await until(lambda: statuses(inbox) == {"completed": 20})
    assert max(convoys(inbox)) <= 3
    for odd in (0, 1):
        assert [n for n in sink.numbers if n % 2 == odd] == list(range(odd, 20, 2))


async def test_an_event_that_is_gone_ends_the_convoy_before_it(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    ids = await publish(hf, range(6), keys=1)
    inbox.rows("delete from holdfast.events where id = %s returning id", ids[3])
    async with hf.worker(**FAST):
        await until(lambda: inbox.one("select count(*) from holdfast.archive") == 5)
        await until(lambda: inbox.one("select last_error from holdfast.inbox").startswith("EventGone"))
    assert sink.numbers == [0, 1, 2, 4, 5]


# Everything at once, and with a guard taken away


def moody(seed: int) -> Callable[[Message], Verdict | None]:
    dice = random.Random(seed)

    def judge(message: Message) -> Verdict | None:
        mood = dice.random()
        if mood < 0.03:
            return None
        return Refused(reason="not now") if mood < 0.15 else Delivered()

    return judge


async def play(hf: Holdfast, inbox: Inbox, broker: Broker, events: int = 400) -> None:
    hf.relay("order.*", to=broker, name="bus", ordered=True, max_attempts=100, retry=AT_ONCE)
    await publish(hf, range(events // 2), keys=7)
    async with hf.worker(**FAST):
        await publish(hf, range(events // 2, events), keys=7)
        await until(lambda: statuses(inbox) == {"completed": events}, 90)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(3))
async def test_order_holds_through_refusals_and_lost_connections(hf: Holdfast, inbox: Inbox, seed: int) -> None:
    broker = Broker(moody(seed))
    await play(hf, inbox, broker)
    assert not broker.out_of_order()
    assert not broker.together
    assert sum(map(len, broker.arrived.values())) == 400


@pytest.mark.timeout(180)
async def test_order_is_lost_if_a_convoy_goes_on_after_a_refusal(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above is worth."""

    guarded = InFlight._goes_on

    def goes_on(self: InFlight, claim: Claim, outcome: Outcome) -> bool:
        if isinstance(outcome, Completed) or not self._convoys.follows(claim):
            return guarded(self, claim, outcome)
        if not (behind := self._convoys._under_way[claim.slot]._behind):
            return guarded(self, claim, outcome)
        self.following.append(behind.popleft())
        self._filled.set()
        return True

    monkeypatch.setattr(InFlight, "_goes_on", goes_on)
    broker = Broker(lambda m: Refused(reason="odd") if number(m) % 5 == 0 and m.attempt == 1 else Delivered())
    hf.relay("order.*", to=broker, name="bus", ordered=True, max_attempts=100, retry=AT_ONCE)
    await publish(hf, range(100), keys=3)
    async with hf.worker(**FAST):
        await until(lambda: bool(broker.out_of_order()))
