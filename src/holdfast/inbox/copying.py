"""Very many jobs, by COPY: lines of text, some at a time, so that the server stores the first while the last are made.

Text and not the binary form: with lines the server stores what it has after 64 KB, and reuses the room; of binary rows
it first collects a thousand, and a call for a thousand took an eighth longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ..db.callers import Row
from ..db.database import Database
from ..model.keys import bucket
from .enqueue import Order, Terms

COMMON: dict[str, object] = {
    "queue": "default", "priority": 1, "max_attempts": 5, "payload_version": 1, "headers": None, "ordered": False,
    "skips": False, "owned": False,
}  # fmt: skip
"""What all jobs of a call have in common, with the table's own defaults: what is as they say is not sent."""

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def question(database: Database, terms: Terms) -> tuple[str, tuple[object, ...]]:
    """What to ask the server before COPY; `Lines` takes the answer."""
    parameters = (terms.queue, terms.ordered, terms.skips, terms.delay, terms.instant)
    return database.sql("inbox", "enqueue_copy"), parameters


class Lines:
    """Orders as COPY reads them. The answer's time is the server's, taken after the transaction drew its xid."""

    def __init__(self, terms: Terms, answer: Row) -> None:
        now, ordered, skips, owned = answer[:4]
        at = max(terms.at, now) if terms.at is not None else now + timedelta(seconds=terms.delay or 0)
        values = (terms.queue, terms.priority, terms.max_attempts, terms.version, terms.headers, ordered, skips, owned)
        said = {name: value for name, value in zip(COMMON, values, strict=True) if value != COMMON[name]}
        self.columns = ("id", "partition_key", "partition_bucket", "payload", "available_at", *said)
        self._same = "\t".join([at.isoformat(), *(_escaped(str(value)) for value in said.values())])

    def encode(self, orders: Sequence[Order]) -> bytes:
        same = self._same
        lines = []
        for order in orders:
            id = str(order.id)
            key, shown = (id, id) if order.key is None else (order.key, _escaped(order.key))
            payload = order.payload.replace("\\", "\\\\")  # JSON holds none of the other characters as they are
            lines.append(f"{id}\t{shown}\t{bucket(key)}\t{payload}\t{same}\n")
        return "".join(lines).encode()


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
