"""Routes, events and replays, as operators see them."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result
from tests.outbox.conftest import Sink
from tests.support.pages import ROOT, blocks
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast, InvalidInput, NotFound
from holdfast.cli import cli
from holdfast.model.event import Delivered, Refused
from holdfast.outbox import operating

FAST: dict[str, Any] = {"lease": 30, "housekeeping": 0.2, "poll": 0.05}


@pytest.fixture
def command(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", inbox.url)

    def run(*arguments: str, input: str | None = None) -> Result:
        with ThreadPoolExecutor(1) as thread:  # it runs an event loop
            return thread.submit(CliRunner().invoke, cli, ["outbox", *arguments], input=input).result()

    return run


def publish(hf: Holdfast, number: int) -> list[Any]:
    return [hf.publish_sync("order.paid", {"n": n}, key=f"k{n % 3}") for n in range(number)]


async def work(hf: Holdfast, sink: Sink, number: int) -> None:
    async with hf.worker(**FAST):
        await until(lambda: len(sink.messages) >= number)


async def test_a_replay_delivers_once_more_under_the_same_event_id(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus", ordered=True)
    made = [await hf.publish("order.paid", {"n": n}, key=f"k{n % 3}") for n in range(10)]
    await work(hf, sink, 10)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    assert await hf.replay("bus", since=long_ago) == 10
    assert await hf.replay("bus", event=made[3].id) == 1
    assert await hf.replay("bus", since=long_ago, types=["nothing.*"]) == 0
    assert await hf.replay("bus", since=long_ago, until=long_ago + timedelta(minutes=1)) == 0
    await work(hf, sink, 21)
    again = sink.messages[10:]
    assert {m.event_id for m in again} == {str(each.id) for each in made}
    assert len({m.id for m in sink.messages}) == 21, "a broker that drops duplicates takes them"
    assert {m.id.partition("#")[2] for m in again} == {"1", "2"}
    for key in ("k0", "k1", "k2"):
        first = [m.data for m in again if m.key == key and m.id.endswith("#1")]
        assert first == sorted(first)


async def test_a_new_route_gets_what_was_before_by_a_replay(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    for n in range(5):
        await hf.publish("order.paid", {"n": n})
    hf.relay("order.*", to=sink, name="late")
    async with hf.worker(**FAST):
        assert await hf.replay("late", since=datetime.now(UTC) - timedelta(hours=1)) == 5
        await until(lambda: len(sink.messages) == 5)


async def test_a_replay_of_many_goes_in_batches(hf: Holdfast, inbox: Inbox, sink: Sink) -> None:
    hf.relay("order.*", to=sink, name="bus")
    inbox.rows(
        "insert into holdfast.events (id, published_at, source, type, data)"
        " select holdfast.uuidv7(), now(), 's', 'order.paid', '{}' from generate_series(1, 2500)"
    )
    await hf.publish("order.paid", {})
    assert await hf.replay("bus", since=datetime.now(UTC) - timedelta(hours=1)) == 2501
    assert inbox.one("select count(*) from holdfast.inbox where queue = 'out.bus'") == 2502


async def test_bad_replays_are_rejected(hf: Holdfast) -> None:
    with pytest.raises(NotFound, match="There is no route 'bus'"):
        await hf.replay("bus", since=datetime.now(UTC))
    with pytest.raises(InvalidInput, match="since: expected a time, or event"):
        await hf.replay("bus")
    with pytest.raises(InvalidInput, match="no time zone"):
        await hf.replay("bus", since=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


def test_routes_and_lag_are_shown(hf: Holdfast, inbox: Inbox, sink: Sink, command: Any) -> None:
    assert "no routes" in command("routes").output
    hf.relay("order.*", "refund.*", to=sink, name="bus", ordered=True)
    publish(hf, 3)
    shown = command("routes").output
    assert "order.* refund.*" in shown
    assert "active" in shown
    (row,) = json.loads(command("routes", "--json").output)
    assert (row["name"], row["destination"], row["waiting"], row["delivered"]) == ("bus", "sink", 3, 0)
    (row,) = json.loads(command("lag", "--json").output)
    assert row["waiting"] == 3
    assert row["oldest"] >= 0
    assert "oldest" in command("lag").output


@pytest.mark.parametrize("name", ["bus", "webhooks"])
async def test_the_lag_of_what_was_delivered_is_measured(hf: Holdfast, inbox: Inbox, sink: Sink, name: str) -> None:
    """Also if a broker's route is called as that of webhook endpoints must be."""
    hf.relay("order.*", to=sink, name=name)
    for n in range(20):
        await hf.publish("order.paid", {"n": n})
    await work(hf, sink, 20)
    (row,) = inbox.rows("select * from holdfast.delivered_lately(300, 100)")
    assert (row["queue"], row["deliveries"]) == (f"out.{name}", 20)
    (route,) = await operating.routes(hf._calls)
    assert (route["delivered"], route["lag_p50"], route["lag_p99"]) == (20, row["half"], row["most"])
    truth = inbox.rows("select extract(epoch from lag)::float8 as lag from holdfast.outbox order by 1")
    assert row["longest"] == pytest.approx(truth[-1]["lag"], abs=0.05)
    assert 0 < row["half"] <= row["most"] <= row["longest"]


def test_only_the_last_pages_are_read_for_it(inbox: Inbox) -> None:
    inbox.rows(
        "insert into holdfast.archive (id, seq, partition_key, partition_bucket, queue, priority, kind, payload,"
        " payload_version, status, attempts, max_attempts, lease_generation, available_at, created_at, finished_at)"
        " select holdfast.uuidv7(), n, n::text, 1, 'out.bus', 1, '@deliver', '{}', 1, 'completed', 1, 5, 1, now(),"
        " now(), now() from generate_series(1, 5000) n"
    )
    (few,) = inbox.rows("select deliveries from holdfast.delivered_lately(300, 10)")
    (all_,) = inbox.rows("select deliveries from holdfast.delivered_lately(300, 100000)")
    assert 0 < few["deliveries"] < 1000
    assert all_["deliveries"] == 5000


async def test_events_are_listed_with_their_deliveries(hf: Holdfast, inbox: Inbox, sink: Sink, command: Any) -> None:
    assert "no events" in command("list").output
    hf.relay("order.*", to=sink, name="bus", max_attempts=1)
    sink.judge = lambda m: (
        Refused(reason="no \x1b[31m such queue") if m.data == b'{"n": 1}' else Delivered(reference="7")
    )
    made = [await hf.publish("order.paid", {"n": n}) for n in range(2)]
    alone = await hf.publish("user.born", {"name": "Ada"})
    await work(hf, sink, 2)
    rows = json.loads(command("list", "--json").output)
    assert [row["id"] for row in rows] == [str(alone.id), str(made[1].id), str(made[0].id)]
    assert [row["deliveries"] for row in rows] == [[], ["bus: dead_letter"], ["bus: completed"]]
    assert "no route" in command("list").output
    (query,) = (block.text for block in blocks(ROOT / "docs" / "outbox.md") if "and not exists" in block.text)
    assert [row["id"] for row in inbox.rows(query)] == [alone.id]
    assert len(json.loads(command("list", "--json", "--type", "order.*", "--limit", "1").output)) == 1
    shown = command("show", str(made[1].id)).output
    assert "dead letter after 1 of 1 attempts: Refused: no ·[31m such queue" in shown
    assert "holdfast dead revive" in shown
    assert "delivered" in command("show", str(made[0].id)).output
    full = json.loads(command("show", str(made[0].id), "--json").output)
    assert full["data"] == {"n": 0}
    assert full["deliveries"][0]["result"] == {"reference": "7"}
    missing = command("show", str(uuid4()))
    assert missing.exit_code == 1
    assert "There is no event" in str(missing.exception or missing.output)


def test_events_of_one_millisecond_are_listed_in_their_order(inbox: Inbox, command: Any) -> None:
    """The rest of their ids is random."""
    ids = ["019e0000-0000-7000-8000-00000000000" + end for end in "2713"]
    for id in ids:
        inbox.rows("select holdfast.publish('order.paid', '{}', id => %s)", id)
    listed = json.loads(command("list", "--json").output)
    assert [row["id"] for row in listed] == ids[::-1]


async def test_replays_from_the_command_line(hf: Holdfast, inbox: Inbox, sink: Sink, command: Any) -> None:
    hf.relay("order.*", to=sink, name="bus")
    made = [str((await hf.publish("order.paid", {"n": n})).id) for n in range(5)]
    first = made[0]
    waiting = "select count(*) from holdfast.inbox"
    assert (
        "5 events would be delivered once more along bus"
        in command("replay", "--route", "bus", "--since", "1h", "--dry-run").output
    )
    assert inbox.one(waiting) == 5
    declined = command("replay", "--route", "bus", "--since", "1h", input="n\n")
    assert (declined.exit_code, inbox.one(waiting)) == (1, 5)
    assert "Deliver 5 events once more along bus?" in declined.output
    assert "5 events are" in command("replay", "--route", "bus", "--since", "2020-01-31T03:00Z", "--yes").output
    assert (
        "1 event is delivered once more along bus"
        in command("replay", "--route", "bus", "--event", first, "--yes").output
    )
    assert inbox.one(waiting) == 11
    await work(hf, sink, 11)
    assert Counter(message.event_id for message in sink.messages) == Counter([*made, *made, first])
    assert command("replay", "--route", "bus", "--yes").exit_code == 2
    assert "such as 2026-01-31T03:00Z" in command("replay", "--route", "bus", "--since", "yesterday").output


async def test_a_route_that_is_removed_gets_no_more_events(
    hf: Holdfast, inbox: Inbox, sink: Sink, command: Any
) -> None:
    hf.relay("order.*", to=sink, name="bus")
    await hf.publish("order.paid", {"n": 0})
    assert "gets no new events" in command("remove", "bus", "--yes").output
    assert (await hf.publish("order.paid", {"n": 1})).deliveries == 0
    assert "removed" in command("routes").output
    assert command("remove", "none", "--yes").exit_code == 1
    async with hf.worker(**FAST):
        assert (await hf.publish("order.paid", {"n": 2})).deliveries == 1, "its code still has it"
        await until(lambda: sorted(sink.numbers) == [0, 2])
