"""Deliveries of events: to real servers on loopback that answer as they should not, and to nobody at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg
from tests.explain.real.conftest import QUICK, Scene
from tests.support.causes import cause
from tests.support.pooler import direct
from tests.support.waiting import until
from tests.webhooks.servers import Server, answering, serving

from holdfast.embedded.cluster import free_port
from holdfast.transports.redis import RedisStreams
from holdfast.webhooks import Webhooks

LOCAL = Webhooks(allow_private=True, allow_http=True, ports=None)


async def delivery(scene: Scene) -> UUID:
    """The delivery of the one event that was published."""
    statement = "select id from holdfast.inbox where kind = '@deliver' and payload ? 'endpoint'"
    await until(lambda: len(scene.inbox.rows(statement)) == 1)
    id: UUID = scene.inbox.one(statement)
    return id


@asynccontextmanager
async def endpoint(scene: Scene, status: int = 204, headers: str = "") -> AsyncIterator[tuple[Server, UUID]]:
    """An endpoint whose server answers this, and a worker that sends to it."""
    scene.hf.relay("*", to=LOCAL, name="webhooks")
    async with serving(answering(status, headers=headers)) as server, scene.hf.worker(**QUICK):
        added = await scene.hf.add_endpoint(server.url, types=["order.*"], policy=LOCAL.policy)
        yield server, added.id


@cause("endpoint_paused", "endpoint_gone")
async def test_somebody_pauses_its_endpoint_and_deletes_another(scene: Scene) -> None:
    """No command deletes an endpoint. Somebody who does it in SQL leaves what waits for it."""
    async with endpoint(scene) as (server, id):
        await scene.hf.pause_endpoint(id)
        await scene.hf.publish("order.paid", {"n": 1})
        job = await delivery(scene)
        found = await scene.until(job, "endpoint_paused")
        assert f"its endpoint {id} ({server.url}) is paused" in found.answer.sentence
        assert len(found.reasons) == 1
        await scene.obey(found.answer)
        await scene.until(job, "completed")
        await scene.hf.pause_endpoint(id)
        await scene.hf.publish("order.paid", {"n": 2})
        job = await delivery(scene)
        scene.inbox.rows("delete from holdfast.endpoints where id = %s", id)
        found = await scene.until(job, "endpoint_gone")
        assert f"its endpoint {id} does not exist any more" in found.answer.sentence
        await scene.obey(found.answer)
        await scene.until(job, "cancelled")


@cause("endpoint_disabled")
async def test_its_endpoint_says_that_it_is_gone(scene: Scene) -> None:
    async with endpoint(scene, 410) as (server, _):
        await scene.hf.publish("order.paid", {"n": 1})
        job = await delivery(scene)
        found = await scene.until(job, "endpoint_disabled")
        assert "is disabled since 2" in found.answer.sentence and "410" in found.answer.sentence
        assert len(server.requests) == 1
        await scene.obey(found.answer)  # enable it, although its owner has not mended it
        await until(lambda: len(server.requests) == 2)
        await scene.until(job, "endpoint_disabled")


@cause("breaker", "endpoint_paused")
async def test_its_endpoint_takes_nothing_and_is_paused_while_a_session_holds_the_delivery(scene: Scene) -> None:
    """What is locked at that moment is not put aside. So it is with a delivery whose attempt ends just then."""
    async with endpoint(scene, 503, "retry-after: 3600\r\n") as (server, id):
        await scene.hf.publish("order.paid", {"n": 1})
        job = await delivery(scene)
        found = await scene.until(job, "breaker")
        assert f"its endpoint {id} ({server.url}) has accepted nothing since 2" in found.answer.sentence
        assert found.answer.until is not None
        told = await scene.obey(found.answer)  # its attempts
        assert "503" in told
        async with await psycopg.AsyncConnection.connect(direct(scene.inbox.url)) as holder:
            await holder.execute("select from holdfast.inbox where id = %s for update", [job])
            await scene.hf.pause_endpoint(id)
        assert scene.inbox.job(job)["queue"] == "out.webhooks.endpoints"
        await scene.until(job, "endpoint_paused", "breaker")


@cause("destination_away")
async def test_nobody_listens_where_its_route_leads(scene: Scene) -> None:
    port = free_port()
    scene.hf.relay("order.*", to=RedisStreams(f"redis://127.0.0.1:{port}", "orders"), name="bus")
    async with scene.hf.worker(**QUICK):
        await scene.hf.publish("order.paid", {"n": 1})
        (job,) = await scene.hf.find_jobs(queue="out.bus")
        found = await scene.until(job, "destination_away")
        assert f"cannot reach the destination of route bus (redis://127.0.0.1:{port}" in found.answer.sentence
        await scene.command("runbook", "route-stuck")


@cause("route_removed")
async def test_its_route_is_removed_before_a_worker_comes(scene: Scene) -> None:
    @scene.hf.task
    async def other() -> None: ...

    scene.hf.relay("order.*", to=RedisStreams("redis://127.0.0.1:1", "orders"), name="bus")
    async with scene.hf.worker(**QUICK):
        pass  # it declares the route
    await scene.hf.publish("order.paid", {"n": 1})
    await scene.command("outbox", "remove", "bus")
    (job,) = await scene.hf.find_jobs(queue="out.bus")
    found = await scene.until(job, "route_removed", "no_worker")
    assert "its route bus was removed at 2" in found.answer.sentence
