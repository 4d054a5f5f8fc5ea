"""What workflow instances and deliveries wait for, step by step, without a worker; with one, see `real/`."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from tests.explain.conftest import Place
from tests.outbox.conftest import Sink
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Backoff, Flow, Holdfast, Workflow, acting_as
from holdfast.testing import drain_sync


@dataclass(slots=True)
class Shop:
    """An application with workflows on the queue of the test, and a worker that could run them."""

    place: Place
    app: Holdfast
    checkout: Workflow[[str], None]

    def start(self, way: str) -> str:
        id = f"{self.place.queue}:{way}"
        self.checkout.options(id=id).start_sync(way)
        self.drain()
        return id

    def drain(self) -> None:
        drain_sync(self.app, queues=[self.place.queue], errors="retry")


async def broken() -> None:
    raise ValueError("no luck")


async def nothing() -> None:
    pass


@pytest.fixture
def shop(place: Place) -> Iterator[Shop]:
    place.worker(kinds={"checkout": [1, 1], "pay": [1, 1]})
    app = Holdfast(place.url)

    @app.task(name="pay", queue=place.queue, max_attempts=1)
    def pay() -> None:
        raise ValueError("no luck")

    @app.workflow(name="checkout", queue=place.queue, version=1)
    async def checkout(flow: Flow, way: str) -> None:
        if way == "child":
            await flow.child("pay", pay)
        elif way == "retry":
            await flow.step("break", broken, retry=Backoff(base=3600, jitter=0))
        elif way == "undo":
            await flow.step("reserve", nothing, undo=broken)
        if way == "sleep":
            await flow.sleep("grace", "1h")
        else:
            await flow.wait("shipped", timeout="3d")

    yield Shop(place, app, checkout)
    app.close_sync()


def test_a_signal(shop: Shop) -> None:
    id = shop.start("signal")
    found = shop.place.why(id)
    assert [reason.code for reason in found.reasons] == ["waits_signal"]
    assert "a_signal:signal waits for the signal shipped since 2" in found.answer.sentence
    assert found.answer.until is not None
    assert found.answer.remedy == f"holdfast workflow signal {id} shipped"
    assert found.id is not None and shop.place.why(found.id).reasons == shop.place.why(id).reasons
    shop.app.signal_sync(id, "shipped")
    assert shop.place.codes(id) == ["due"]
    shop.drain()
    assert shop.place.codes(id) == ["completed"]


def test_a_timer_a_retry_and_a_pause(shop: Shop) -> None:
    asleep, retried = shop.start("sleep"), shop.start("retry")
    assert shop.place.codes(asleep) == ["waits_timer"]
    assert "sleeps in grace since 2" in shop.place.why(asleep).answer.sentence
    assert shop.place.codes(retried) == ["waits_retry"]
    with acting_as("ann@example.org"):
        shop.app.pause_instance_sync(asleep)
    found = shop.place.why(asleep)
    assert found.answer.code == "instance_paused"
    assert found.answer.sentence.endswith("Z, by ann@example.org")
    assert found.answer.remedy == f"holdfast workflow resume {asleep}"
    shop.app.resume_instance_sync(asleep)
    shop.drain()
    assert shop.place.codes(asleep) == ["waits_timer"]


def test_a_child_that_is_a_dead_letter(shop: Shop) -> None:
    id = shop.start("child")
    found = shop.place.why(id)
    assert [reason.code for reason in found.reasons] == ["child_dead", "waits_child"]
    (child,) = shop.place.rows("select id from holdfast.inbox where kind = 'pay'")
    assert str(child["id"]) in found.answer.sentence
    shop.app.revive_sync([child["id"]])
    assert shop.place.codes(id) == ["waits_child"]


def test_undoing(shop: Shop) -> None:
    id = shop.start("undo")
    assert shop.place.codes(id) == ["waits_signal"]
    shop.app.cancel_instance_sync(id)
    shop.drain()
    assert "undoing" in shop.place.codes(id)
    assert any("steps are being undone" in reason.sentence for reason in shop.place.why(id).reasons)


def test_code_that_does_not_fit(shop: Shop) -> None:
    id = shop.start("signal")
    other = Holdfast(shop.place.url)

    @other.workflow(name="checkout", queue=shop.place.queue, version=1)
    async def changed(flow: Flow, way: str) -> None:
        await flow.step("another", broken)

    other.signal_sync(id, "shipped")
    drain_sync(other, queues=[shop.place.queue], errors="retry")
    other.close_sync()
    found = shop.place.why(id)
    assert found.answer.code == "needs_attention"
    assert f"holdfast workflow resume {id}" in (found.answer.remedy or "")


# Deliveries


def delivery(place: Place, endpoint: UUID | None = None) -> UUID:
    """A delivery, as publish and fan-out make it."""
    place.queue = "out.webhooks.endpoints" if endpoint else "out.bus"
    id = place.enqueue("@deliver")
    about = f"""jsonb_build_object('type', '@deliver', 'event', '{uuid4()}', 'endpoint', '{endpoint}')"""
    return place.set(id, kind="'@deliver'", payload=about if endpoint else "payload")


def test_an_endpoint_is_held(place: Place) -> None:
    (row,) = place.rows(
        "insert into holdfast.endpoints (url, secrets) values ('https://a.example', '[{}]') returning id"
    )
    endpoint = row["id"]
    id = delivery(place, endpoint)
    place.worker(kinds={"@deliver": [1, 1]})
    assert place.codes(id) == ["due"]
    change = "select * from holdfast.change_endpoint(%s, %s, 'it answered 410', '{active,paused,disabled}', null)"
    for status, code in (("paused", "endpoint_paused"), ("disabled", "endpoint_disabled")):
        place.rows(change, endpoint, status)
        found = place.why(id)
        assert [reason.code for reason in found.reasons] == [code]
        assert "https://a.example" in found.answer.sentence
    assert "it answered 410" in found.answer.sentence
    place.rows(change, endpoint, "active")
    place.rows("update holdfast.endpoints set failing_since = now() - interval '1 h'")
    place.set(id, available_at="now() + interval '1 m'", lease_generation="1")
    found = place.why(id)
    assert found.answer.code == "breaker"
    assert "has accepted nothing since" in found.answer.sentence
    place.rows("delete from holdfast.endpoints")
    place.set(id, queue=f"'hold.{endpoint}'")
    assert "endpoint_gone" in place.codes(id)


def test_a_route_that_was_removed(place: Place) -> None:
    place.rows("insert into holdfast.routes (name, types, queue, removed_at) values ('bus', '{*}', 'out.bus', now())")
    assert place.codes(delivery(place)) == ["route_removed", "no_worker"]


async def test_a_destination_is_away(hf: Holdfast, inbox: Inbox) -> None:
    sink = Sink()
    sink.away = True
    hf.relay("order.*", to=sink, name="bus")
    async with hf.worker(heartbeat=0.1, housekeeping=0.1):
        await hf.publish("order.paid", {"n": 1})
        await until(
            lambda: inbox.rows("select id from holdfast.workers where metadata -> 'counters' ->> 'away' = '1'") != []
        )
        (row,) = inbox.rows("select id from holdfast.inbox where kind = '@deliver'")
        found = await hf.explain(row["id"])
        assert found.answer.code == "destination_away"
        assert "route bus (sink)" in found.answer.sentence
        sink.away = False
        await until(
            lambda: inbox.rows("select id from holdfast.workers where metadata -> 'counters' ->> 'away' = '0'") != []
        )
        await until(lambda: inbox.status(row["id"]) == "completed")
    assert (await hf.explain(row["id"])).answer.code == "completed"
