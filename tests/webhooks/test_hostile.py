"""Hostile endpoints, served by a worker: each attempt ends in time, and is recorded; others are not held up."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.webhooks import servers
from tests.webhooks.servers import answering, serving

from holdfast import Holdfast
from holdfast.webhooks import Webhooks, schedule
from holdfast.webhooks import sender as module

TIMEOUT = 4.0
OPEN = Webhooks(allow_private=True, allow_http=True, ports=None).policy


async def test_every_hostile_endpoint_is_refused_and_recorded(
    hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127.0.0.2 stands for a public address; 127.0.0.1 is private, and nothing may reach it.

    An answer that begins with 200 says that the event is taken; of what else it sends, only the beginning is kept.
    """
    looked_up = 0
    look_up = module._look_up

    def rebinding(host: str, port: int, family: int) -> list[object]:
        nonlocal looked_up
        if host != "moves.test":
            return look_up(host, port, family)
        looked_up += 1
        return look_up("127.0.0.2" if looked_up == 1 else "127.0.0.1", port, family)

    monkeypatch.setattr(module, "_look_up", rebinding)
    # Nothing is retried while the test looks, and a busy machine has time for answers that are none.
    monkeypatch.setattr(schedule, "DELAYS", (3600.0,) * len(schedule.DELAYS))
    webhooks = Webhooks(allow_private=["127.0.0.2/32"], allow_http=True, ports=None, timeout=TIMEOUT)
    hf.relay("*", to=webhooks, name="webhooks")
    async with AsyncExitStack() as stack:
        inside = await stack.enter_async_context(serving())
        good = await stack.enter_async_context(serving(host="127.0.0.2"))
        moving = await stack.enter_async_context(
            serving(answering(500, headers="connection: close\r\n"), host="127.0.0.2")
        )
        hostile = {
            "HTTP 302": answering(302, headers=f"location: {inside.url}\r\n"),
            "no whole answer within 4 s": servers.silent,
            "no whole answer within 4 s ": servers.dripping,
            "the server closed the connection": servers.closing,
            "400": servers.long_header,
            "400 ": servers.endless_headers,
        }
        expected = {}
        for words, behave in hostile.items():
            server = await stack.enter_async_context(serving(behave, "127.0.0.2"))
            expected[(await hf.add_endpoint(server.url, policy=OPEN)).id] = words.strip()
        huge = {}
        for response, behave in {"x" * 1024: servers.endless, "(encoded as gzip)": servers.bomb}.items():
            server = await stack.enter_async_context(serving(behave, "127.0.0.2"))
            huge[(await hf.add_endpoint(server.url, policy=OPEN)).id] = response
        for host in ("127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "0x7f.1"):
            added = await hf.add_endpoint(f"http://{host}:{inside.port}/", policy=OPEN)
            expected[added.id] = "canonical" if host == "127.1" else "is not a public address"
        moves = await hf.add_endpoint(f"http://moves.test:{moving.port}/", policy=OPEN)
        await hf.add_endpoint(good.url, policy=OPEN)

        watch = Stopwatch()
        async with hf.worker(lease=30, housekeeping=0.2, poll=0.05):
            await hf.publish("order.paid", {"n": 1})
            await until(lambda: len(good.requests) == 1)
            await until(
                lambda: (
                    inbox.one("select count(*) from holdfast.webhook_attempts where not delivered") >= len(expected) + 1
                )
            )
            delivered = "select count(*) from holdfast.webhook_attempts where delivered"
            await until(lambda: inbox.one(delivered) == 1 + len(huge))
            inbox.rows(
                "update holdfast.inbox set available_at = now() where payload ->> 'endpoint' = %s", str(moves.id)
            )
            await until(lambda: looked_up == 2)
            await until(lambda: inbox.one("select count(*) from holdfast.inbox where attempts = 2 "
                                          "and status = 'pending'") == 1)  # fmt: skip
        taken = watch.taken()
        for id, words in expected.items():
            (attempt,) = await hf.endpoint_attempts(id)
            assert attempt.error is not None and words in attempt.error, (attempt, words)
            assert not attempt.delivered and (attempt.ms or 0) / 1000 < TIMEOUT + 2 + taken.seconds, (attempt, taken)
        for id, response in huge.items():
            (attempt,) = await hf.endpoint_attempts(id)
            assert (attempt.delivered, attempt.status, attempt.response) == (True, 200, response)
            assert (attempt.ms or 0) / 1000 < TIMEOUT + taken.seconds, (attempt, taken)
        second, first = await hf.endpoint_attempts(moves.id)
        assert first.status == 500 and second.status is None
        assert second.error is not None and "127.0.0.1 is not a public address" in second.error
    assert inside.connections == 0
    assert len(moving.requests) == 1
