"""Rows as workers that are gone, or hand-written SQL, leave them."""

from typing import Any
from uuid import UUID

from tests.support.workers import Inbox


def put(inbox: Inbox, **columns: Any) -> UUID:
    """A row as hand-written SQL might leave it."""
    values = {"partition_key": "k", "partition_bucket": 1, "payload": '{"type": "t"}', **columns}
    marks = ", ".join(["%s"] * len(values))
    id: UUID = inbox.one(
        f"insert into holdfast.inbox ({', '.join(values)}) values ({marks}) returning id", *values.values()
    )
    return id


def claimed(inbox: Inbox, left: str = "-1 second", **columns: Any) -> UUID:
    """A row in flight whose lease has so much left."""
    id = put(
        inbox,
        status="processing",
        claimed_by="gone",
        claimed_at="now",
        lease_generation=4,
        **{"attempts": 2, **columns},
    )
    inbox.rows("update holdfast.inbox set lease_expires_at = now() + %s::interval where id = %s", left, id)
    return id


def many_claimed(inbox: Inbox, count: int, left: str = "-1 second", worker: str = "gone") -> None:
    """So many rows of a worker, all with the same lease, as one renewal leaves them."""
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, status, claimed_by, claimed_at,"
        " lease_generation, attempts, lease_expires_at)"
        """ select 'k', 1, '{"type": "t"}', 'processing', %s, now(), 4, 2, now() + %s::interval"""
        " from generate_series(1, %s)",
        worker, left, count,
    )  # fmt: skip


def count(inbox: Inbox, status: str) -> int:
    return int(inbox.one("select count(*) from holdfast.inbox where status = %s::holdfast.inbox_status", status))
