"""Webhooks over HTTP: a real server, real requests, and an implementation of the signatures that is not ours."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import io
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from email.message import EmailMessage
from typing import Any

import aiohttp
import pytest
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hooks import OTHER, SECRET, fresh_id, plain_body, serving, signed, structured
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import ConfigurationError, Event, Holdfast, InvalidInput, Receiver, Rejected, Unreachable
from holdfast.receiving import rejecting
from holdfast.receiving.arrivals import MOST_BODY

STRUCTURED = "application/cloudevents+json"
Post = Callable[..., Awaitable[int]]


class Client:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session
        self.host, self.port = "127.0.0.1", int(url.split(":")[2].partition("/")[0])

    async def post(self, body: Any, headers: dict[str, str]) -> int:
        if isinstance(body, bytes) and len(body) > 1024 * 1024:
            body = io.BytesIO(body)  # the client warns otherwise
        async with self.session.post(self.url, data=body, headers=headers) as answer:
            text = await answer.read()
            assert (answer.status == 204) == (text == b"")
            return answer.status

    async def raw(self, data: bytes, *more: bytes, pause: float = 0.0) -> bytes:
        """Send these bytes; what comes back until the server closes the connection, or is silent for long."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            async with asyncio.timeout(25):
                answer = asyncio.create_task(reader.read(65536))
                for part in (data, *more):
                    if not answer.done():
                        writer.write(part)
                        await asyncio.sleep(pause)
                return await answer
        finally:
            writer.close()


@pytest.fixture
def receiver(hf: Holdfast) -> Receiver:
    return hf.receiver(source="shop", secrets=[SECRET], timeout="60s")


@pytest.fixture
async def client(receiver: Receiver) -> AsyncIterator[Client]:
    async with serving(receiver) as url, aiohttp.ClientSession() as session:
        yield Client(url, session)


def rows(inbox: Inbox) -> list[dict[str, Any]]:
    return inbox.rows("select * from holdfast.inbox order by seq")


async def test_a_signed_message_is_committed_before_the_answer(client: Client, inbox: Inbox) -> None:
    body, id = plain_body(order_id=1), fresh_id()
    assert await client.post(body, signed(body, id)) == 204
    (row,) = rows(inbox)
    assert (row["kind"], row["queue"]) == ("shop/order.paid", "in.shop")
    event = row["payload"]["event"]
    assert (event["id"], event["source"], event["type"], event["data"]) == (id, "shop", "order.paid", {"order_id": 1})
    assert event["at"] == "2026-11-16T15:00:00Z"


async def test_it_is_handled_once_however_often_it_comes(hf: Holdfast, client: Client, inbox: Inbox) -> None:
    seen: list[Event[Any]] = []

    @hf.on_event("order.paid", source="shop")
    async def paid(event: Event[dict[str, int]]) -> None:
        seen.append(event)

    body, id = plain_body(order_id=1), fresh_id()
    async with hf.worker():
        for _ in range(3):
            assert await client.post(body, signed(body, id)) == 204
        while not inbox.one("select count(*) from holdfast.archive"):
            await asyncio.sleep(0.01)
        assert await client.post(body, signed(body, id)) == 204, "after its end, too"
    assert len(seen) == 1
    assert inbox.one("select count(*) from holdfast.jobs") == 1


async def test_fifty_at_once_make_one_job(client: Client, inbox: Inbox) -> None:
    body = plain_body(order_id=1)
    headers = signed(body)
    assert set(await asyncio.gather(*(client.post(body, headers) for _ in range(50)))) == {204}
    assert len(rows(inbox)) == 1


async def test_the_same_id_with_another_body(client: Client, inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    one, two, id = plain_body(order_id=1), plain_body(order_id=2), fresh_id()
    assert await client.post(one, signed(one, id)) == 204
    assert await client.post(two, signed(two, id)) == 204
    (row,) = rows(inbox)
    assert row["payload"]["event"]["data"] == {"order_id": 1}
    assert "another body; the first one is kept" in caplog.text


async def test_structured_events(client: Client, inbox: Inbox) -> None:
    body = structured("e1", partitionkey="order:1", schemaversion=2)
    assert await client.post(body, signed(body, content_type=f"{STRUCTURED}; charset=utf-8")) == 204
    assert await client.post(body, signed(body, content_type=STRUCTURED)) == 204, "under another webhook-id"
    (row,) = rows(inbox)
    assert (row["partition_key"], row["payload_version"], row["payload"]["event"]["id"]) == ("order:1", 2, "e1")


async def test_structured_events_of_another_implementation(client: Client, inbox: Inbox) -> None:
    from cloudevents.core.bindings.http import to_structured_event

    made = CloudEvent({"id": "e9", "source": "/théâtre", "type": "order.paid", "key": "ü"}, {"order_id": 9})
    message = to_structured_event(made)
    body = message.body
    headers = {name.lower(): value for name, value in message.headers.items()}
    assert await client.post(body, {**signed(body), **headers}) == 204
    event = rows(inbox)[0]["payload"]["event"]
    assert (event["id"], event["source"], event["data"]) == ("e9", "/théâtre", {"order_id": 9})
    assert event["headers"] == {"key": "ü"}


@pytest.fixture
async def trusting(hf: Holdfast, client: Client) -> AsyncIterator[Client]:
    """The client of a receiver that takes attributes in headers."""
    receiver = hf.receiver(source="shop", secrets=[SECRET], timeout="60s", binary=True)
    async with serving(receiver) as url:
        yield Client(url, client.session)


async def test_binary_events_of_another_implementation(trusting: Client, inbox: Inbox) -> None:
    from cloudevents.core.bindings.http import to_binary_event

    id = fresh_id()
    made = CloudEvent(
        {"id": id, "source": "/théâtre", "type": "order.paid", "partitionkey": 'a "b" %'}, {"order_id": 9}
    )
    message = to_binary_event(made)
    assert await trusting.post(message.body, {**signed(message.body, id), **message.headers}) == 204
    row = rows(inbox)[0]
    event = row["payload"]["event"]
    assert (event["id"], event["source"], event["data"]) == (id, "/théâtre", {"order_id": 9})
    assert row["partition_key"] == 'a "b" %'


async def test_headers_that_are_not_signed_make_no_second_job(trusting: Client, inbox: Inbox) -> None:
    body, id = b'{"order_id": 1}', fresh_id()
    headers = signed(body, id, ce_specversion="1.0", ce_id=id, ce_source="s", ce_type="order.paid")
    assert await trusting.post(body, headers) == 204
    assert await trusting.post(body, {**headers, "ce-source": "t"}) == 204
    assert await trusting.post(body, {**headers, "ce-type": "order.refunded"}) == 204
    assert await trusting.post(body, {**headers, "content-type": STRUCTURED}) == 204
    assert await trusting.post(body, {**headers, "ce-id": "another"}) == 401
    assert len(rows(inbox)) == 1


FORMS = {
    "structured": structured("e1"),
    "plain": plain_body(order_id=1),
    "data": b'{"type": "card", "order_id": 1}',
    "no type": b'{"order_id": 1}',
    "another version": structured("e1", specversion="0.3"),
    "a version that is none": structured("e1", specversion=None),
    "no object": b"[1]",
    "no JSON": b"{",
}


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS.keys())
async def test_one_signed_request_makes_one_job_of_one_type(
    hf: Holdfast, inbox: Inbox, body: bytes, binary: bool
) -> None:
    """It was recorded, and is sent again with other headers: these are not signed."""
    id = fresh_id()

    async def post(**headers: str) -> str | None:
        """The kind of the job that it made."""
        given = signed(body, id, SECRET, None, **headers)
        try:
            received = await hf.receive(source="shop", secrets=[SECRET], headers=given, body=body, binary=binary)
        except Rejected as rejected:
            assert rejected.status == 400
            return None
        return received.kind

    def attributes(type: str) -> dict[str, str]:
        return {"ce_specversion": "1.0", "ce_id": id, "ce_source": "shop", "ce_type": type}

    changed: list[dict[str, str]] = [
        {**types, **more}
        for types in ({}, {"content_type": STRUCTURED}, {"content_type": "application/x+json"})
        for more in ({}, attributes("order.paid"), {"ce_id": id})
    ]
    kinds = {kind for headers in changed if (kind := await post(**headers)) is not None}
    assert len(rows(inbox)) <= 1
    if not binary or b"specversion" in body:  # otherwise, its type is not signed
        assert len(kinds) == 1
        assert {await post(**{**headers, **attributes("order.refunded")}) for headers in changed} <= {*kinds, None}
        assert {row["kind"] for row in rows(inbox)} == kinds


async def test_attributes_in_headers_are_asked_for_or_rejected(
    client: Client, trusting: Client, receiver: Receiver, inbox: Inbox
) -> None:
    plain, id = plain_body(order_id=1), fresh_id()
    beside = signed(plain, id, ce_specversion="1.0", ce_id=id, ce_source="s", ce_type="order.refunded")
    assert await client.post(plain, beside) == 400
    assert await trusting.post(plain, signed(plain, id)) == 400
    assert not rows(inbox)
    assert dict(receiver.rejected) == {400: 1}
    whole = structured("e1")
    assert await client.post(whole, signed(whole, ce_id="x", ce_type="order.refunded")) == 204
    assert await trusting.post(whole, signed(whole)) == 204
    (row,) = rows(inbox)
    assert (row["kind"], row["payload"]["event"]["id"]) == ("shop/order.paid", "e1")


async def test_what_cannot_be_read_is_kept(client: Client, trusting: Client, inbox: Inbox) -> None:
    bodies = [
        b"{",
        b"[]",
        b'{"data": 1}',
        b'{"type": 5}',
        b'{"type": "a\\u0000b"}',
        b'{"type": "x", "data": "\\u0000"}',
    ]
    for body in bodies:
        assert await client.post(body, signed(body)) == 204
    found = rows(inbox)
    assert {row["kind"] for row in found} == {"@unreadable"}
    assert [base64.b64decode(row["payload"]["body"]) for row in found] == bodies
    body = plain_body()
    assert await trusting.post(body, signed(body, ce_id="%ff")) == 204
    assert rows(inbox)[-1]["payload"]["attributes"] == {"ce-id": "%ff"}


# Hostile requests


@pytest.fixture
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rejected request has a line of its own in the log."""
    monkeypatch.setattr(rejecting, "LOG_EVERY", 0.0)


def rejections(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says about rejected requests."""
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.receiving"]
    return [line for line in lines if line.startswith("source shop: rejected 1 request (1 with 401); webhook-")]


async def test_replays(
    hf: Holdfast,
    client: Client,
    receiver: Receiver,
    inbox: Inbox,
    every_line: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = plain_body(order_id=1)
    now = time.time()
    refused = 0
    for at, status in ((now - 290, 204), (now + 290, 204), (now - 310, 401), (now + 310, 401), (0, 401)):
        headers = signed(body, at=at)
        assert await client.post(body, headers) == status, at - now
        if status == 204:
            assert await client.post(body, headers) == 204
            again = await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body)
            assert again.duplicate
        refused += status == 401
        assert (dict(receiver.rejected), len(rejections(caplog))) == ({401: refused} if refused else {}, refused)
    assert len(rows(inbox)) == 2


async def test_altered_requests(
    hf: Holdfast,
    client: Client,
    receiver: Receiver,
    inbox: Inbox,
    every_line: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    body, id = plain_body(order_id=1), fresh_id()
    headers = signed(body, id)
    later = str(int(headers["webhook-timestamp"]) + 1)
    altered: list[tuple[bytes, dict[str, str]]] = [
        (plain_body(order_id=2), headers),
        (body + b" ", headers),
        (body, {**headers, "webhook-id": fresh_id()}),
        (body, {**headers, "webhook-timestamp": later}),
        (body, {**headers, "webhook-timestamp": f"{headers['webhook-timestamp']}.0"}),
        (body, {**headers, "webhook-signature": headers["webhook-signature"].replace("v1,", "v2,")}),
        (body, {**headers, "webhook-signature": headers["webhook-signature"][:-2]}),
        (body, signed(body, id, secret=OTHER)),
        *((body, {name: value for name, value in headers.items() if name != gone}) for gone in list(headers)[:3]),
    ]
    for number, (changed, given_headers) in enumerate(altered, 1):
        assert await client.post(changed, given_headers) == 401, given_headers
        assert (dict(receiver.rejected), len(rejections(caplog))) == ({401: number}, number)
    assert not rows(inbox)
    assert not inbox.one("select count(*) from holdfast.dedupe")
    assert await client.post(body, headers) == 204
    assert (await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body)).duplicate
    assert len(rows(inbox)) == 1


@pytest.mark.parametrize("how", ["list", "function", "coroutine"])
async def test_two_secrets_and_their_rotation(hf: Holdfast, inbox: Inbox, how: str) -> None:
    held = [OTHER, SECRET]

    async def later() -> list[str]:
        await asyncio.sleep(0)
        return held

    secrets = {"list": held, "function": lambda: held, "coroutine": later}[how]
    body = plain_body(order_id=1)
    async with serving(hf.receiver(source="shop", secrets=secrets)) as url, aiohttp.ClientSession() as session:  # type: ignore[arg-type]
        client = Client(url, session)
        at = time.time()
        both = f"{signed(body, 'x', OTHER, at)['webhook-signature']} {signed(body, 'x', at=at)['webhook-signature']}"
        assert await client.post(body, signed(body)) == 204
        assert await client.post(body, signed(body, secret=OTHER)) == 204
        assert await client.post(body, {**signed(body, "x", at=at), "webhook-signature": both}) == 204
        if how != "list":
            held.remove(SECRET)
            assert await client.post(body, signed(body)) == 401
            held.clear()
            assert await client.post(body, signed(body)) == 500, "the sender tries again"
    assert len(rows(inbox)) == 3


TEXT = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=80)
SIGNATURE = st.one_of(
    TEXT,
    st.lists(
        st.builds("v1,{}".format, st.binary(max_size=40).map(base64.b64encode).map(bytes.decode)), max_size=40
    ).map(" ".join),
    st.lists(st.sampled_from(["v1", "v1,", ",", "v1a,", "v1,=", "v1,====", "v1, ", "é"]), max_size=8).map(" ".join),
)


def test_malformed_signatures_are_rejected(every_line: None, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the headers are: never an error, never a message, always a line in the log, and one only."""
    hf = Holdfast("postgresql://nowhere.invalid/none")

    @given(
        st.none() | TEXT,
        st.none() | TEXT | st.just(str(int(time.time()))),
        st.none() | SIGNATURE,
        st.binary(max_size=50),
    )
    def check(id: str | None, timestamp: str | None, signature: str | None, body: bytes) -> None:
        given_headers = {"Webhook-Id": id, "webhook-timestamp": timestamp, "WEBHOOK-SIGNATURE": signature}
        headers = {name: value for name, value in given_headers.items() if value is not None}
        caplog.clear()
        with pytest.raises(Rejected) as rejected:
            asyncio.run(hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body))
        assert rejected.value.status == 401
        (line,) = rejections(caplog)
        assert line.isprintable()

    check()


async def test_the_answer_says_nothing_and_the_log_says_why(
    hf: Holdfast, inbox: Inbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejecting, "LOG_EVERY", 4.0)
    receiver = hf.receiver(source="shop", secrets=[SECRET])
    body = plain_body(order_id=1)
    async with serving(receiver) as url, aiohttp.ClientSession() as session:
        texts = set()
        for headers in (signed(body, at=0), signed(body, secret=OTHER), {"content-type": "application/json"}):
            async with session.post(url, data=body, headers=headers) as answer:
                texts.add((answer.status, await answer.read()))
        await session.get(url)
        assert len(texts) == 1
        assert dict(receiver.rejected) == {401: 3, 405: 1}
        await until(lambda: caplog.text.count("source shop: rejected") == 2)
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.receiving"]
    assert len(lines) == 2, "one at once, the others together"
    assert lines[0].startswith("source shop: rejected 1 request (1 with 401); webhook-timestamp: ")
    assert lines[1].startswith("source shop: rejected 3 requests (2 with 401, 1 with 405); one of them: webhook-sig")
    assert SECRET not in caplog.text


def test_invented_sources_are_counted_together() -> None:
    by_source: dict[str, rejecting.Rejections] = {}
    found = [rejecting.of(f"source-{n}", by_source) for n in range(1000)]
    assert len(by_source) == len(set(found)) == rejecting.SOURCES + 1
    assert rejecting.of("source-7", by_source) is found[7]


async def test_the_plain_functions_log_at_a_bounded_rate_and_one_line_at_a_time(
    hf: Holdfast, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejecting, "LOG_EVERY", 2.0)
    body = plain_body(order_id=1)
    forged = {**signed(body, secret=OTHER), "content-encoding": "x\nsource shop: all is well" + "x" * 1000}

    def receive(headers: dict[str, str]) -> None:
        with pytest.raises(Rejected):
            hf.receive_sync(source="shop", secrets=[SECRET], headers=headers, body=body)

    for headers in (forged, forged, signed(body, secret=OTHER)):
        await asyncio.to_thread(receive, headers)
    await until(lambda: len(caplog.records) == 2)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("source shop: rejected 1 request (1 with 415); content-encoding: expected none, got 'x\\n")
    assert second.startswith("source shop: rejected 2 requests (1 with 401, 1 with 415); one of them: content-encoding")
    assert all(line.isprintable() and len(line) < 500 for line in (first, second))


async def test_other_methods_and_types(client: Client, receiver: Receiver, inbox: Inbox) -> None:
    async with client.session.get(client.url) as answer:
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    body = plain_body()
    assert await client.post(body, signed(body, content_type="text/plain")) == 415
    assert await client.post(body, signed(body, content_type="application/x-www-form-urlencoded")) == 415
    assert await client.post(body, signed(body, content_type="application/cloudevents-batch+json")) == 415
    assert await client.post(body, signed(body, content_encoding="gzip")) == 415
    assert not rows(inbox)
    assert dict(receiver.rejected) == {405: 1, 415: 4}
    assert await client.post(body, signed(body, content_type="application/json; charset=utf-8")) == 204


async def test_large_bodies(client: Client, receiver: Receiver, inbox: Inbox) -> None:
    def padded(size: int) -> bytes:
        return plain_body(text="").replace(b'""', b'"' + b"x" * (size - len(plain_body(text=""))) + b'"')

    fits, over = padded(MOST_BODY), padded(MOST_BODY + 1)
    assert len(fits) == MOST_BODY
    assert await client.post(fits, signed(fits)) == 204
    assert await client.post(over, signed(over)) == 413

    async def in_chunks(of: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(of), 65536):
            yield of[start : start + 65536]

    assert await client.post(in_chunks(fits), signed(fits)) == 204
    with contextlib.suppress(aiohttp.ClientConnectionError):  # it closes the connection, and the rest is on its way
        assert await client.post(in_chunks(over * 10), signed(over)) == 413
    lying = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n"
    assert (await client.raw(lying)).startswith(b"HTTP/1.1 413")
    assert len(rows(inbox)) == 2
    assert dict(receiver.rejected) == {413: 3}


async def test_slow_bodies(hf: Holdfast, client: Client, inbox: Inbox) -> None:
    """The timeout is of the whole body: a byte now and then does not extend it."""
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    receiver = hf.receiver(source="shop", secrets=[SECRET], timeout="1s")
    async with serving(receiver) as url:
        impatient = Client(url, client.session)
        answers = await asyncio.gather(*(impatient.raw(head, *[b"x"] * 8, pause=0.2) for _ in range(20)))
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers), answers[0]
    assert dict(receiver.rejected) == {408: 20}
    body = plain_body(order_id=1)
    assert await client.post(body, signed(body)) == 204, "others are served"


async def test_a_client_that_goes_away_leaves_nothing(client: Client, inbox: Inbox) -> None:
    _, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    await writer.drain()
    writer.close()
    body = plain_body(order_id=1)
    assert await client.post(body, signed(body)) == 204
    assert len(rows(inbox)) == 1


async def test_without_a_database(caplog: pytest.LogCaptureFixture) -> None:
    hf = Holdfast("postgresql://127.0.0.1:1/none")
    body = plain_body(order_id=1)
    with pytest.raises(Unreachable):
        await hf.receive(source="shop", secrets=[SECRET], headers=signed(body), body=body)
    async with serving(hf.receiver(source="shop", secrets=[SECRET])) as url, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(url, data=body, headers=signed(body)) as answer:
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert await Client(url, session).post(body, signed(body, secret=OTHER)) == 401, "first of all, who asks"
    lines = [record for record in caplog.records if "answering 503" in record.getMessage()]
    assert len(lines) == 1 and lines[0].levelno == logging.WARNING


async def test_one_schema_missing_is_an_error_that_the_sender_repeats(database_url: str) -> None:
    hf = Holdfast(database_url)
    body = plain_body(order_id=1)
    async with serving(hf.receiver(source="shop", secrets=[SECRET])) as url, aiohttp.ClientSession() as session:
        assert await Client(url, session).post(body, signed(body)) == 500


# The plain function


async def test_the_plain_functions(hf: Holdfast, inbox: Inbox) -> None:
    body, id = plain_body(order_id=1), fresh_id()
    headers = {name.title(): value for name, value in signed(body, id).items()}
    first = await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    again = await asyncio.to_thread(hf.receive_sync, source="shop", secrets=lambda: [SECRET], headers=pairs, body=body)
    assert (first.message, first.duplicate, again.duplicate, again.job) == (id, False, True, first.job)
    received_headers = EmailMessage()
    for name, value in headers.items():
        received_headers[name] = value
    third = await hf.receive(source="shop", secrets=[SECRET], headers=received_headers, body=body)  # type: ignore[arg-type]
    assert third.duplicate
    with pytest.raises(Rejected, match="no signature matches this request") as rejected:
        await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=body + b" ")
    assert rejected.value.status == 401
    with pytest.raises(Rejected, match="larger than 2,097,152 bytes") as rejected:
        await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=b"x" * (MOST_BODY + 1))
    assert rejected.value.status == 413
    with pytest.raises(InvalidInput, match="body: expected the raw bytes of the request, got a dict"):
        await hf.receive(source="shop", secrets=[SECRET], headers=headers, body=json.loads(body))
    assert len(rows(inbox)) == 1


async def test_a_header_that_is_there_twice_is_no_way_around(hf: Holdfast, inbox: Inbox) -> None:
    body = plain_body(order_id=1)
    pairs = list(signed(body).items())
    for name, _ in pairs[:2]:
        with pytest.raises(Rejected):
            await hf.receive(source="shop", secrets=[SECRET], headers=[(name, "1"), *pairs], body=body)


def test_secrets_that_cannot_work() -> None:
    hf = Holdfast("postgresql://nowhere.invalid/none")
    for secrets in (SECRET, [], ["whsec_"], ["plain"], [SECRET, "whsec_!"], 5, [b"x"]):
        with pytest.raises(ConfigurationError, match="secrets") as error:
            hf.receiver(source="shop", secrets=secrets)  # type: ignore[arg-type]
        assert "plain" not in str(error.value)
    with pytest.raises(ConfigurationError, match="timeout: expected a duration above zero"):
        hf.receiver(source="shop", secrets=[SECRET], timeout=0)


def test_the_vector_of_the_specification() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    text = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
    made = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    assert made == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    body = b'{"test": 2432232314}'
    headers = signed(body, "msg_p5jXN8AQM9LWM0D4loKWxJek", at=1614265330)
    assert headers["webhook-signature"] == f"v1,{made}"


async def test_other_protocols(hf: Holdfast) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await hf.receiver(source="shop", secrets=[SECRET])({"type": "websocket"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_mounted_in_an_application(hf: Holdfast, inbox: Inbox) -> None:
    receiver = hf.receiver(source="shop", secrets=[SECRET])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/hooks"):
            await receiver({**scope, "root_path": "/hooks"}, receive, send)
        else:
            await hf.receiver(source="other", secrets=[OTHER])(scope, receive, send)

    body = structured("e1")
    async with serving(app) as url, aiohttp.ClientSession() as session:
        assert await Client(f"{url}/hooks/shop", session).post(body, signed(body, content_type=STRUCTURED)) == 204
    assert len(rows(inbox)) == 1
