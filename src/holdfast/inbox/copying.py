"""Enqueue very many jobs by COPY, some at a time: the server stores the first while the last are made.

Fewer than BINARY_FROM jobs are sent as lines of text, more as binary rows. A binary row costs the server less, but it
allocates room for a thousand rows before it stores any, and frees it after the call: for calls of a thousand rows that
is an eighth of the time. Lines are stored after 64 KB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from ..db.callers import Row
from ..db.database import Database
from ..model.keys import bucket
from ..model.terms import NewJob, Terms

BINARY_FROM = 2000


def question(database: Database, terms: Terms, number: int) -> tuple[str, tuple[object, ...]]:
    """What to ask the server before a COPY of `number` jobs; `form` takes the answer."""
    return database.sql("inbox", "enqueue_copy"), (terms.text, number)


def form(number: int, terms: Terms, answer: Row) -> Lines | Bytes:
    """How to send `number` jobs. The time in the answer is the server's, taken after the transaction drew its xid."""
    now, ordered, skips, owned, expires_at = answer[:5]
    at = max(terms.at, now) if terms.at is not None else now + timedelta(seconds=terms.delay or 0)
    headers = msgspec.json.encode(terms.headers).decode() if terms.headers is not None else None
    values = (
        terms.queue, terms.priority, terms.max_attempts, terms.version, headers, ordered, skips, owned, expires_at,
    )  # fmt: skip
    said = {name: value for name, value in zip(COMMON, values, strict=True) if value != COMMON[name].usual}
    return (Lines if number < BINARY_FROM else Bytes)({"available_at": at, "kind": terms.kind, **said})


OF_EACH = ("id", "partition_key", "partition_bucket", "payload")


class Lines:
    """Text."""

    format: Literal["text"] = "text"
    before, after = b"", b""

    def __init__(self, common: dict[str, Any]) -> None:
        self.columns = (*OF_EACH, *common)
        self._same = "\t".join(_escaped(str(value)) for value in common.values())

    def encode(self, jobs: Sequence[NewJob]) -> bytes:
        same = self._same
        lines = []
        for job in jobs:
            id = str(job.id)
            key, shown = (id, id) if job.key is None else (job.key, _escaped(job.key))
            payload = job.payload.replace("\\", "\\\\")  # JSON holds none of the other characters as they are
            lines.append(f"{id}\t{shown}\t{bucket(key)}\t{payload}\t{same}\n")
        return "".join(lines).encode()


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


class Bytes:
    """The binary form: the number of fields, then each with its length before it."""

    format: Literal["binary"] = "binary"
    before, after = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

    def __init__(self, common: dict[str, Any]) -> None:
        self.columns = (*OF_EACH, *common)
        fields = [
            ALWAYS[name](value) if name in ALWAYS else COMMON[name].encode(value) for name, value in common.items()
        ]
        self._same = b"".join(len(field).to_bytes(4, "big") + field for field in fields)

    def encode(self, jobs: Sequence[NewJob]) -> bytes:
        width, same = len(self.columns), self._same
        parts: list[bytes] = []
        for job in jobs:
            key = job.key if job.key is not None else str(job.id)
            key_bytes, payload = key.encode(), job.payload.encode()
            parts += (
                _BEFORE_KEY.pack(width, 16, job.id.bytes, len(key_bytes)), key_bytes,
                _AFTER_KEY.pack(4, bucket(key), 1 + len(payload), _JSONB), payload, same,
            )  # fmt: skip
        return b"".join(parts)


_BEFORE_KEY = struct.Struct("!hi16si")
"""The number of fields; the id; how long the key is."""
_AFTER_KEY = struct.Struct("!iii1s")
"""The bucket; how long the payload is, with the version of its form."""
_JSONB = b"\1"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def _instant(value: datetime) -> bytes:
    return struct.pack("!q", (value - _EPOCH) // timedelta(microseconds=1))


def _jsonb(value: str) -> bytes:
    return _JSONB + value.encode()


class Column(NamedTuple):
    """Of what all jobs of a call have in common: the table's own default, which is not sent, and the binary form."""

    usual: object
    encode: Callable[[Any], bytes]


_SMALLINT, _INT, _BOOLEAN = (struct.Struct(code).pack for code in ("!h", "!i", "!?"))

ALWAYS: dict[str, Callable[[Any], bytes]] = {"available_at": _instant, "kind": str.encode}
"""What is sent even if it is usual."""
COMMON = {
    "queue": Column("default", str.encode),
    "priority": Column(1, _SMALLINT),
    "max_attempts": Column(5, _INT),
    "payload_version": Column(1, _INT),
    "headers": Column(None, _jsonb),
    "ordered": Column(False, _BOOLEAN),
    "skips": Column(False, _BOOLEAN),
    "owned": Column(False, _BOOLEAN),
    "expires_at": Column(None, _instant),
}
