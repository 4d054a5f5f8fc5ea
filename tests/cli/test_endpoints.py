"""`holdfast endpoint …`."""

import asyncio
import re
from collections import Counter

import pytest
from standardwebhooks.webhooks import Webhook
from tests.cli.conftest import Answer, Shell
from tests.support.waiting import until
from tests.support.workers import Inbox
from tests.webhooks.servers import Behaviour, answering, serving

from holdfast import Holdfast
from holdfast.webhooks import Webhooks, fanning
from holdfast.webhooks.fanning import QUEUE

LOCAL = ("--allow-http", "--allow-private", "--any-port")


def test_the_life_of_an_endpoint(shell: Shell) -> None:
    assert shell("endpoint", "list").out.startswith("no endpoints")
    added = shell("endpoint", "add", "https://example.com/hook", "--type", "order.*", "--type", "user.added",
                  "--tenant", "acme", "--description", "orders").out  # fmt: skip
    found = re.search(r"endpoint  (\S+)\nsecret    (whsec_\S+)\n.*not shown again", added)
    assert found is not None, added
    endpoint, secret = found.groups()

    (listed,) = shell("endpoint", "list", "--json").json
    assert (listed["id"], listed["types"], listed["status"], listed["held"]) == (
        endpoint, ["order.*", "user.added"], "active", 0,
    )  # fmt: skip
    shown = shell("endpoint", "show", endpoint)
    assert "order.*, user.added" in shown.out and "acme" in shown.out
    assert shell("endpoint", "show", endpoint, "--json").json["description"] == "orders"
    assert secret not in shown.out + shell("endpoint", "list").out + shell("endpoint", "list", "--json").out

    assert "paused; 0 events wait" in shell("endpoint", "pause", endpoint, "--yes").out
    assert "paused" in shell("endpoint", "list").out
    assert "active; 0 events had waited" in shell("endpoint", "resume", endpoint).out
    assert "disabled; 0 events are held" in shell(
        "endpoint", "disable", endpoint, "--yes", "--reason", "they left").out  # fmt: skip
    assert "they left" in shell("endpoint", "show", endpoint).out
    assert "is disabled" in shell("endpoint", "resume", endpoint).err
    assert "active" in shell("endpoint", "enable", endpoint).out

    rotated = shell("endpoint", "rotate", endpoint, "--yes", "--json").json["secret"]
    assert rotated.startswith("whsec_") and rotated != secret
    again = shell("endpoint", "rotate", endpoint, "--yes")
    assert (again.code, "--force" in again.err) == (1, True)
    assert "secret    whsec_" in shell("endpoint", "rotate", endpoint, "--yes", "--force").out

    assert shell("endpoint", "attempts", endpoint).out == "no attempts\n"
    assert shell("endpoint", "attempts", endpoint, "--json").json == []
    assert shell("endpoint", "recover", endpoint, "--since", "3d", "--yes", "--json").json == {
        "revived": 0,
        "missed": 0,
    }
    assert "0 events would be sent" in shell("endpoint", "replay", endpoint, "--since", "2h", "--dry-run").out
    event = "00000000-0000-7000-8000-000000000000"
    assert shell("endpoint", "replay", endpoint, "--event", event, "--yes", "--json").json == {
        "endpoint": endpoint, "events": 0, "dry_run": False,
    }  # fmt: skip
    assert "expected --since" in shell("endpoint", "replay", endpoint, "--yes").err


def test_a_test_and_mistakes(shell: Shell) -> None:
    private = shell("endpoint", "add", "https://127.0.0.1/")
    assert (private.code, "is not a public address" in private.err, "--allow-private" in private.err) == (1, True, True)
    plain = shell("endpoint", "add", "http://127.0.0.1:9/")
    assert (plain.code, "expected https" in plain.err, "--allow-http" in plain.err) == (1, True, True)
    port = shell("endpoint", "add", "https://127.0.0.1:9/")
    assert (port.code, "port 9 is not allowed" in port.err, "--any-port" in port.err) == (1, True, True)
    added = shell("endpoint", "add", "http://127.0.0.1:9/", "--allow-http", "--allow-private", "--any-port", "--json")
    endpoint = added.json["id"]
    refused = shell("endpoint", "test", endpoint)
    assert (refused.code, "not accepted: url: expected https" in refused.out) == (1, True), refused.all
    assert "on the command line: --allow-http" in refused.out
    assert " ms" not in refused.out and "no address" not in refused.out, "nothing was sent"
    away = shell("endpoint", "test", endpoint, "--allow-http", "--allow-private", "--any-port")
    assert (away.code, "not accepted: " in away.out) == (1, True)
    again = shell("endpoint", "add", "http://127.0.0.1:9/", "--allow-http", "--allow-private", "--any-port")
    assert (again.code, "there is already an endpoint" in again.err) == (1, True)
    missing = shell("endpoint", "show", "00000000-0000-7000-8000-000000000000")
    assert (missing.code, "There is no endpoint" in missing.err) == (1, True)
    assert "expected an endpoint id" in shell("endpoint", "show", "nightly").err


async def test_what_is_held_replayed_and_recovered_arrives_under_its_own_id(
    shell: Shell, hf: Holdfast, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three events and a dead letter, sent by a worker to an HTTP server."""
    says: list[Behaviour] = [answering(204)]
    received: Counter[str] = Counter()

    async def run(*words: str) -> Answer:
        answer = await asyncio.to_thread(shell, *words)
        assert answer.code == 0, answer.all
        return answer

    def rows(status: str) -> dict[str, int]:
        found = inbox.rows("select queue, count(*) as n from holdfast.inbox where status::text = %s group by 1", status)
        return {row["queue"]: row["n"] for row in found}

    async def arrived(*ids: str) -> None:
        """These and nothing else have come since the last time, and all of it is signed."""
        received.update(ids)
        await until(lambda: len(server.requests) >= received.total())
        await until(lambda: rows("pending") == rows("processing") == {})
        assert Counter(each.headers["webhook-id"] for each in server.requests) == received
        for each in server.requests:
            Webhook(added["secret"]).verify(each.body, each.headers)

    hf.relay("*", to=Webhooks(allow_private=True, allow_http=True, ports=None), name="webhooks")
    async with serving(lambda *request: says[0](*request)) as server:
        added = (await run("endpoint", "add", server.url, *LOCAL, "--json")).json
        id = added["id"]
        async with hf.worker(lease=30, housekeeping=0.2, poll=0.05):
            await hf.pause(QUEUE)  # the worker fans out, and sends nothing yet
            made = [str((await hf.publish("order.paid", {"n": n})).id) for n in range(3)]
            await until(lambda: rows("pending") == {QUEUE: 3})
            assert "paused; 3 events wait." in (await run("endpoint", "pause", id, "--yes")).out
            await hf.resume(QUEUE)
            assert (rows("pending"), server.requests) == ({f"hold.{id}": 3}, [])
            assert "active; 3 events had waited" in (await run("endpoint", "resume", id)).out
            await arrived(*made)
            attempts = (await run("endpoint", "attempts", id, "--json")).json
            assert sorted((each["event"], each["attempt"], each["status"], each["delivered"]) for each in attempts) == [
                (event, 1, 204, True) for event in sorted(made)
            ]

            one = await run("endpoint", "replay", id, "--event", made[1], "--yes", "--json")
            assert one.json == {"endpoint": id, "events": 1, "dry_run": False}
            await arrived(made[1])
            all_ = await run("endpoint", "replay", id, "--since", "1h", "--yes")
            assert "3 events are sent to it once more" in all_.out
            await arrived(*made)
            along = await run("outbox", "replay", "--route", "webhooks", "--event", made[2], "--yes")
            assert "1 event is delivered once more along webhooks" in along.out
            await arrived(made[2])

            monkeypatch.setattr(fanning, "ATTEMPTS", 1)
            says[0] = answering(500)
            lost = str((await hf.publish("order.paid", {"n": 3})).id)
            await arrived(lost)
            assert rows("dead_letter") == {QUEUE: 1}
            says[0] = answering(204)
            recovered = await run("endpoint", "recover", id, "--since", "1h", "--yes")
            assert "1 dead letter is sent again, and 0 events that it missed" in recovered.out
            await arrived(lost)
            assert rows("dead_letter") == {}
