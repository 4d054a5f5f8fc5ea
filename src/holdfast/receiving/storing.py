"""Store messages: one statement for one message or for a batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, cast
from uuid import UUID

import asyncpg
import msgspec

from ..db.database import words
from ..db.runner import Runner
from ..model.ids import new_ids
from ..probes import probe
from .arrivals import Arrival, Source

log = logging.getLogger("holdfast.receiving")

_UNSTORABLE = ("22", "23", "54")
"""SQLSTATE classes of what is wrong with a message, and will be wrong again: data, constraints, the server's limits."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message: it is stored, and its job is committed.

    ```python
    received = await hf.receive(source="shop", secrets=SECRETS, headers=request.headers, body=request.body)
    if received.duplicate:
        print(f"{received.message} was here before, as job {received.job}")
    ```
    """

    message: str
    """The id of the message: `webhook-id`, or what the broker calls it."""
    job: UUID
    """The job that it became, at this delivery or at an earlier one."""
    kind: str
    """The kind of the job: `shop/order.paid`, or `@unreadable`."""
    duplicate: bool = False
    """Was it delivered before?"""
    differs: bool = False
    """Was it delivered before with another body? The first one is kept."""
    unreadable: str | None = None
    """Why it could not be read. It is stored as it came, and waits."""


class Held(NamedTuple):
    """That a worker has a consumer: what it stores is stored under this, or not at all."""

    consumer: str
    worker: str
    generation: int
    seconds: float
    """For which it is kept, from each store on."""


class TakenOver(Exception):
    """Another worker has the consumer. Nothing was stored."""


async def store(
    runner: Runner, source: Source, arrivals: Sequence[Arrival], held: Held | None = None
) -> list[Received]:
    """Store them, all in one commit. After this, they can be acknowledged. `held`: the consumer that fetched them.

    If the server cannot store one of them, each is stored in a commit of its own, and that one as unreadable.
    """
    try:
        return await _store(runner, source, arrivals, held)
    except asyncpg.PostgresError as error:
        if not (error.sqlstate or "").startswith(_UNSTORABLE):
            raise
        if len(arrivals) == 1:
            if arrivals[0].unreadable is not None:
                raise
            again = source.unreadable(arrivals[0].message, f"it cannot be stored: {words(error)}")
            return await _store(runner, source, [again], held)
    return [(await store(runner, source, [each], held))[0] for each in arrivals]


async def _store(runner: Runner, source: Source, arrivals: Sequence[Arrival], held: Held | None) -> list[Received]:
    numbers: dict[str, int] = {}
    chosen = [numbers.setdefault(each.terms.text, len(numbers) + 1) for each in arrivals]
    probe("receive.before")
    rows = await runner.run(
        "receiving", "store" if held is None else "store_held",
        new_ids(len(arrivals)),
        [each.key for each in arrivals],
        [each.payload for each in arrivals],
        [msgspec.json.encode(each.headers).decode() if each.headers else None for each in arrivals],
        [each.idempotency_key for each in arrivals],
        chosen,
        list(numbers),
        *(held or ()),
    )  # fmt: skip
    probe("receive.after")
    if held is not None and not rows:
        raise TakenOver(f"{held.consumer} now belongs to another worker")
    received = [
        Received(
            message=each.message.id,
            job=cast(UUID, job),
            kind=each.terms.kind,
            duplicate=existed,
            differs=differs,
            unreadable=each.unreadable,
        )
        for each, (job, existed, differs) in zip(arrivals, rows, strict=True)
    ]
    _log(source, received)
    return received


def _log(source: Source, received: Sequence[Received]) -> None:
    if different := [each for each in received if each.differs]:
        log.warning(
            "source %s: %s messages have the id of an earlier one and another body; the first one is kept (job %s has "
            "the message %.200r)",
            source.name, len(different), different[0].job, different[0].message,
        )  # fmt: skip
    if unread := [each for each in received if each.unreadable is not None and not each.duplicate]:
        log.warning(
            "source %s: %s messages cannot be read; they are stored as jobs of the kind %s, and wait (%.200r, job %s: "
            "%.500s)",
            source.name, len(unread), unread[0].kind, unread[0].message, unread[0].job, unread[0].unreadable,
        )  # fmt: skip
