"""Webhooks from publish to the endpoint, sent by a worker."""

import asyncio
import json
from typing import Any

from click.testing import CliRunner
from standardwebhooks.webhooks import Webhook
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.webhooks.servers import answering, serving

from holdfast import Holdfast
from holdfast.cli import cli
from holdfast.outbox import operating
from holdfast.webhooks import Webhooks
from holdfast.webhooks.schedule import DELAYS

FAST: dict[str, Any] = {"lease": 30, "housekeeping": 0.2, "poll": 0.05}
LOCAL = Webhooks(allow_private=True, allow_http=True, ports=None)


def waiting(inbox: Inbox) -> dict[str, int]:
    rows = inbox.rows("select queue, count(*) as n from holdfast.inbox group by queue")
    return {row["queue"]: row["n"] for row in rows}


def health(inbox: Inbox) -> bool:
    inbox.rows("update holdfast.inbox set available_at = now() - interval '1 hour'")
    run = CliRunner().invoke(cli, ["health", "--json"], env={"HOLDFAST_DATABASE_URL": inbox.url})
    stats = CliRunner().invoke(cli, ["stats", "--json"], env={"HOLDFAST_DATABASE_URL": inbox.url})
    return run.exit_code == 0 and json.loads(stats.output)["unclaimable"] == []


async def test_each_endpoint_gets_what_it_wants_signed(hf: Holdfast, inbox: Inbox) -> None:
    hf.relay("*", to=LOCAL, name="webhooks")
    async with serving() as one, serving() as two, hf.worker(**FAST):
        first = await hf.add_endpoint(one.url, types=["order.*"], tenant="*", policy=LOCAL.policy)
        await hf.add_endpoint(two.url, types=["refund.*"], tenant="acme", policy=LOCAL.policy)
        made = await hf.publish("order.paid", {"n": 1}, tenant="acme")
        await hf.publish("refund.made", {"n": 2}, tenant="acme")
        await hf.publish("refund.made", {"n": 3}, tenant="other")
        await until(lambda: len(one.requests) == len(two.requests) == 1)
        await until(lambda: waiting(inbox) == {})
        (request,) = one.requests
        assert request.headers["webhook-id"] == str(made.id)
        Webhook(first.secret).verify(request.body, request.headers)
        attempts = await hf.endpoint_attempts(first.id)
        (route,) = await operating.routes(hf._calls)
    assert [(each.delivered, each.status) for each in attempts] == [(True, 204)]
    (lags,) = inbox.rows(
        "select count(*) as n, min(extract(epoch from lag))::float8 as least, max(extract(epoch from lag))::float8"
        " as most from holdfast.outbox where endpoint is not null"
    )
    assert route["delivered"] == lags["n"] == 2, "the third event was fanned out, and no endpoint wanted it"
    assert lags["least"] - 0.05 <= route["lag_p50"] <= route["lag_p99"] <= lags["most"] + 0.05


async def test_a_paused_endpoint_holds_its_deliveries_and_gets_them_later(hf: Holdfast, inbox: Inbox) -> None:
    hf.relay("*", to=LOCAL, name="webhooks")
    async with serving() as server, hf.worker(**FAST):
        added = await hf.add_endpoint(server.url, policy=LOCAL.policy)
        await hf.pause_endpoint(added.id)
        for n in range(20):
            await hf.publish("order.paid", {"n": n})
        await until(lambda: waiting(inbox) == {f"hold.{added.id}": 20})
        assert server.requests == []
        assert await asyncio.to_thread(health, inbox), "what is held does not wait for a claim"
        await hf.resume_endpoint(added.id)
        await until(lambda: len(server.requests) == 20)
        await until(lambda: waiting(inbox) == {})


async def test_an_endpoint_that_fails_is_retried_by_its_schedule_and_holds_up_no_other(
    hf: Holdfast, inbox: Inbox
) -> None:
    hf.relay("*", to=LOCAL, name="webhooks")
    async with serving(answering(500)) as bad, serving() as good, hf.worker(**FAST):
        failing = await hf.add_endpoint(bad.url, policy=LOCAL.policy)
        await hf.add_endpoint(good.url, policy=LOCAL.policy)
        for n in range(10):
            await hf.publish("order.paid", {"n": n})
        await until(lambda: len(good.requests) == 10)
        await until(
            lambda: inbox.one("select count(*) from holdfast.inbox where attempts > 0 and status = 'pending'") == 10
        )
        rows = inbox.rows(
            "select attempts, extract(epoch from available_at - (errors -> -1 ->> 'at')::timestamptz)::float8 as delay"
            " from holdfast.inbox"
        )
        for row in rows:  # most of them have failed once
            planned = DELAYS[row["attempts"] - 1]
            assert planned - 1 < row["delay"] < 1.2 * planned + 1, rows
        attempts = await hf.endpoint_attempts(failing.id)
    assert {each.status for each in attempts} == {500}


async def test_ordered_endpoints_keep_the_order_of_each_key(hf: Holdfast, inbox: Inbox) -> None:
    hf.relay("*", to=LOCAL, name="webhooks", ordered=True)
    async with serving() as server, hf.worker(**FAST):
        await hf.add_endpoint(server.url, ordered=True, policy=LOCAL.policy)
        for n in range(60):
            await hf.publish("order.paid", {"n": n}, key=f"k{n % 4}")
        await until(lambda: len(server.requests) == 60)
    numbers = [int(request.body.partition(b'"n"')[2].strip(b" :}")) for request in server.requests]
    for key in range(4):
        of_key = [n for n in numbers if n % 4 == key]
        assert of_key == sorted(of_key)


async def test_pauses_and_resumes_while_events_are_sent_lose_nothing(hf: Holdfast, inbox: Inbox) -> None:
    hf.relay("*", to=LOCAL, name="webhooks")
    async with serving() as server, hf.worker(**FAST):
        added = await hf.add_endpoint(server.url, policy=LOCAL.policy)

        async def flip() -> None:
            for _ in range(10):
                await hf.pause_endpoint(added.id)
                await asyncio.sleep(0.02)
                await hf.resume_endpoint(added.id)
                await asyncio.sleep(0.02)

        flipping = asyncio.create_task(flip())
        made = {str((await hf.publish("order.paid", {"n": n})).id) for n in range(200)}
        await flipping
        await until(lambda: waiting(inbox) == {})
    assert {request.headers["webhook-id"] for request in server.requests} == made
    assert inbox.one("select max(attempts) from holdfast.outbox where endpoint is not null") == 1
