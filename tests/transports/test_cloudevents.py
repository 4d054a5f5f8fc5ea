"""Our envelopes, read by ourselves and by an independent implementation, the `cloudevents` package."""

import contextlib
import json
import string
from datetime import datetime, timedelta, timezone

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary, from_http, to_binary
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st
from tests.support.messages import message

from holdfast.model.event import CONTEXT, OURS
from holdfast.transports import Message
from holdfast.transports.cloudevents import JSON, STRUCTURED, Unreadable, attributes, read, structured
from holdfast.transports.headers import decoded, encoded, found, named

EPOCH = datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=-7)))

# As publish takes them: no control characters, which CloudEvents forbids.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), min_size=1, max_size=30)
names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20).filter(
    lambda name: name not in CONTEXT | OURS
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
messages = st.builds(
    message,
    event_id=texts,
    source=texts,
    type=texts,
    version=st.integers(1, 2**31 - 1),
    key=st.none() | texts,
    tenant=st.none() | texts,
    at=st.integers(0, 2**42).map(lambda number: EPOCH + timedelta(milliseconds=number, microseconds=number % 7)),
    headers=st.dictionaries(names, texts, max_size=4),
    data=values.map(lambda value: json.dumps(value).encode()),
)


def check(one: Message, body: bytes, given: dict[str, str], content_type: str | None) -> None:
    event = read(given, body, content_type)
    assert event.id == one.event_id
    assert (event.source, event.type, event.version) == (one.source, one.type, one.version)
    assert (event.key, event.tenant, event.at) == (one.key, one.tenant, one.at)
    assert event.headers == one.headers
    assert json.loads(bytes(event.data)) == json.loads(one.data)


@given(messages)
def test_what_is_written_around_the_data_is_read(one: Message) -> None:
    check(one, structured(one), {}, STRUCTURED)


@given(messages)
def test_what_is_written_beside_the_data_is_read(one: Message) -> None:
    check(one, one.data, attributes(one), JSON)


@given(messages)
def test_what_is_written_into_headers_is_read(one: Message) -> None:
    headers = named(attributes(one))
    assert all(value.isascii() and value.isprintable() and " " not in value for value in headers.values())
    check(one, one.data, found({name.upper(): value for name, value in headers.items()}), JSON)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_values_of_headers(text: str) -> None:
    assert decoded(encoded(text)) == text


@given(messages)
def test_the_package_reads_our_envelope(one: Message) -> None:
    event = from_http(HTTPMessage({"content-type": STRUCTURED}, structured(one)), JSONFormat())
    compare(one, event, one.version)


@given(messages)
def test_the_package_reads_our_headers(one: Message) -> None:
    headers = {**named(attributes(one)), "content-type": JSON}
    event = from_binary(HTTPMessage(headers, one.data), JSONFormat())
    compare(one, event, str(one.version))


def compare(one: Message, event: object, version: int | str) -> None:
    assert isinstance(event, CloudEvent)
    assert (event.get_id(), event.get_source(), event.get_type()) == (one.event_id, one.source, one.type)
    assert event.get_time() == one.at
    assert event.get_specversion() == "1.0"
    assert event.get_datacontenttype() == JSON
    assert event.get_extension("partitionkey") == one.key
    assert event.get_extension("tenant") == one.tenant
    assert event.get_extension("schemaversion") == version
    assert {name: event.get_extension(name) for name in one.headers} == one.headers
    assert event.get_data() == json.loads(one.data)


@given(texts, texts, texts, st.dictionaries(names, texts, max_size=3))
def test_we_read_what_the_package_writes(id: str, source: str, type: str, extensions: dict[str, str]) -> None:
    event = CloudEvent({"id": id, "source": source, "type": type, "datacontenttype": JSON, **extensions}, {"a": 1})
    binary = to_binary(event, JSONFormat())
    around = JSONFormat().write(event)
    for got in (read(found(binary.headers), binary.body, binary.headers["content-type"]), read({}, around, STRUCTURED)):
        assert (got.id, got.source, got.type) == (id, source, type)
        assert got.headers == extensions
        assert json.loads(bytes(got.data)) == {"a": 1}


def test_values_that_are_not_utf_8_are_rejected() -> None:
    with pytest.raises(ValueError):
        decoded("%C0%A0")
    assert decoded("%c3%a4") == "ä"
    assert decoded('"a \\"b\\" \\\\"') == 'a "b" \\'
    assert found({"Content-Type": "x", "CE-Id": "1"}) == {"id": "1"}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"1", b"{", b'{"specversion":"1.0"}', b'{"specversion":"0.3","id":"1","source":"a","type":"b"}',
        b'{"specversion":"1.0","id":"","source":"a","type":"b"}',
        b'{"specversion":"1.0","id":["1"],"source":"a","type":"b"}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"b","time":"yesterday"}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"b","schemaversion":0}',
        b'{"specversion":"1.0","id":"1","source":"a","type":"b","schemaversion":"v2"}',
        b'{"specversion":"1.0","id":"\xff","source":"a","type":"b"}',
    ],
)  # fmt: skip
def test_what_is_not_an_event(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read({}, body, STRUCTURED)


@given(st.binary(max_size=60), st.dictionaries(texts, texts, max_size=4), st.sampled_from([None, JSON, STRUCTURED]))
def test_whatever_comes_is_read_or_unreadable(body: bytes, given: dict[str, str], content_type: str | None) -> None:
    with contextlib.suppress(Unreadable):
        read(given, body, content_type)
