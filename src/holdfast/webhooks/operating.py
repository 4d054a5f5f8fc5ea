"""What applications and operators do with webhook endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from ..db.acting import actor
from ..db.runner import Runner
from ..errors import ConfigurationError, Contended, InvalidInput, NotFound, Unreachable
from ..model.durations import Duration, seconds
from ..model.event import Message
from ..model.ids import new_id
from ..model.limits import check_text
from ..model.signature import check_secret, new_secret
from .addresses import Policy
from .schedule import ATTEMPTS
from .sending import attempt, endpoint_of, new_sender, reason
from .transport import Webhooks

TEST_TYPE = "holdfast.endpoint.test"
LISTED = 1000
BATCH = 1000


@dataclass(frozen=True, slots=True)
class EndpointState:
    """A webhook endpoint, as it was when it was read.

    ```python
    failing = [each.url for each in await hf.list_endpoints() if each.failing_since is not None]
    ```
    """

    id: UUID
    """Its id."""
    tenant: str | None
    """Whose events it gets; None: events without a tenant; '*': events of every tenant."""
    url: str
    """Where they are sent."""
    types: list[str]
    """Which events: types, or beginnings of types with a star."""
    status: str
    """'active', 'paused' or 'disabled'."""
    ordered: bool
    """Are events with the same key sent one at a time and in order?"""
    description: str | None
    """A note about the endpoint."""
    failing_since: datetime | None
    """The first failure since its last success."""
    disabled_at: datetime | None
    """When it was disabled."""
    disabled_reason: str | None
    """Why it was disabled."""
    created_at: datetime
    """When it was added."""
    secrets: list[datetime]
    """When each secret that signs now was made, newest first."""
    held: int
    """Deliveries that wait until it is active."""


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint that was added, and its secret, which is not shown again.

    ```python
    added = await hf.add_endpoint("https://hooks.example/all")
    print(added.id, added.secret)
    ```
    """

    id: UUID
    """Its id."""
    secret: str
    """What the receiver verifies signatures with: `whsec_…`."""


@dataclass(frozen=True, slots=True)
class EndpointAttempt:
    """One attempt to deliver an event to an endpoint.

    ```python
    for each in await hf.endpoint_attempts(added.id):
        print(each.at, each.status, each.error)
    ```
    """

    delivery: UUID | None
    """The delivery: its row in the inbox or in the archive."""
    event: UUID
    """The event: the `webhook-id` of the request."""
    attempt: int
    """Which attempt of the delivery this was, from 1."""
    at: datetime
    """When it ended."""
    delivered: bool
    """Has the endpoint taken the event?"""
    status: int | None
    """Of HTTP; None: there was no whole answer."""
    ms: float | None
    """How long it took, from the look-up of the name to the last byte."""
    address: str | None
    """The address of the server."""
    error: str | None
    """Why it failed."""
    response: str | None
    """How the answer begins: 1 KiB at most."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What `recover_endpoint` has made due again.

    ```python
    recovered = await hf.recover_endpoint(added.id, since="2d")
    print(recovered.revived + recovered.missed)
    ```
    """

    revived: int
    """Dead letters that are sent again."""
    missed: int
    """Events that were published while it was disabled."""


async def add(
    runner: Runner,
    url: str,
    *,
    types: Sequence[str],
    tenant: str | None,
    ordered: bool,
    description: str | None,
    policy: Policy,
    secret: str | None = None,
) -> NewEndpoint:
    """Add an endpoint."""
    if isinstance(types, str) or not types:
        raise InvalidInput("types", "expected a list of types, such as ['order.*']")
    for pattern in types:
        check_pattern(pattern)
    if tenant is not None and not 1 <= len(check_text("tenant", tenant).encode()) <= 256:
        raise InvalidInput("tenant", "expected 1 to 256 bytes of UTF-8")
    if description is not None and len(check_text("description", description)) > 1000:
        raise InvalidInput("description", f"expected at most 1000 characters, got {len(description)}")
    made = NewEndpoint(new_id(), new_secret() if secret is None else check_secret(secret))
    rows = await runner.run(
        "webhooks",
        "add",
        made.id,
        tenant,
        policy.check_url(url),
        list(types),
        ordered,
        made.secret,
        description,
        actor(),
    )
    if not rows:
        whose = "" if tenant is None else f" of tenant {tenant}"
        raise InvalidInput("url", f"there is already an endpoint{whose} with this URL; see holdfast endpoint list")
    return made


def check_pattern(pattern: object) -> str:
    """Return a pattern of types, checked: a type, or its beginning and a star."""
    text = check_text("types", pattern)
    if not 1 <= len(text) <= 129 or "*" in text[:-1] or any(sign.isspace() for sign in text):
        raise InvalidInput("types", f"expected a type, or its beginning and a star, such as 'order.*'; got {text!r}")
    return text


async def states(runner: Runner, id: UUID | None = None, tenant: str | None = None) -> list[EndpointState]:
    """The endpoints of this installation, of a tenant, or the one of this id."""
    rows = await runner.run("webhooks", "list", id, tenant, LISTED)
    return [EndpointState(**dict(row)) for row in rows]


async def state(runner: Runner, id: UUID) -> EndpointState:
    """The endpoint of this id."""
    found = await states(runner, id)
    if not found:
        raise _none(id)
    return found[0]


async def pause(runner: Runner, id: UUID) -> int:
    """Send nothing until it is resumed. Returns how many deliveries wait for that now."""
    moved = await _change(runner, id, "paused", None, ("active", "paused"), "enable it first")
    return await _held(runner, id, moved)


async def resume(runner: Runner, id: UUID) -> int:
    """Send again, first what has waited. Returns how many deliveries that is."""
    return await _change(runner, id, "active", None, ("active", "paused"), "to use it again: holdfast endpoint enable")


async def enable(runner: Runner, id: UUID) -> int:
    """Send again to an endpoint that was disabled or paused. Returns how many deliveries had waited."""
    return await _change(runner, id, "active", None, ("active", "paused", "disabled"), "")


async def disable(runner: Runner, id: UUID, why: str) -> int:
    """Send nothing, and make no deliveries, until it is enabled. Returns how many deliveries wait for that."""
    moved = await _change(runner, id, "disabled", check_text("reason", why), ("active", "paused", "disabled"), "")
    return await _held(runner, id, moved)


async def rotate(runner: Runner, id: UUID, overlap: Duration, force: bool, secret: str | None = None) -> str:
    """Give it a new secret, and return that."""
    made = new_secret() if secret is None else check_secret(secret)
    rows = await runner.run("webhooks", "rotate", id, made, seconds(overlap, "overlap"), force, actor())
    if not rows:
        raise _none(id)
    if not rows[0]["changed"]:
        raise InvalidInput(
            "force",
            f"the secret of endpoint {id} was replaced recently, and the old one is still valid, for receivers that do "
            "not have the new one yet. Another rotation would make it invalid; to do it anyway, pass force=True "
            "(--force)",
        )
    return made


async def attempts(runner: Runner, id: UUID, since: datetime, limit: int) -> list[EndpointAttempt]:
    """Attempts to deliver to an endpoint, newest first."""
    return [_attempt(row) for row in await runner.run("webhooks", "attempts", id, since, limit)]


async def attempts_lately(runner: Runner, id: UUID, events: int, limit: int) -> list[EndpointAttempt]:
    """The newest attempts, of the newest events of the installation: however many deliveries are archived."""
    return [_attempt(row) for row in await runner.run("webhooks", "attempts_lately", id, events, limit)]


async def recover(runner: Runner, id: UUID, since: datetime) -> Recovered:
    """Send again what has failed since then, and what it did not get because it was disabled."""
    await state(runner, id)
    (dead,) = await runner.run("webhooks", "recover_dead", id, since, actor())
    (missed,) = await runner.run("webhooks", "recover_missed", id, since, ATTEMPTS, actor())
    return Recovered(dead["revived"], missed["made"])


async def replay(
    runner: Runner,
    id: UUID,
    since: datetime,
    until: datetime,
    types: Sequence[str] = (),
    event: UUID | None = None,
    dry_run: bool = False,
) -> AsyncIterator[int]:
    """Deliver events once more to an endpoint. Yields how many so far, after each batch, which is a commit."""
    await state(runner, id)
    for pattern in types:
        check_pattern(pattern)
    number = 0 if dry_run else (await runner.run("outbox", "next_replay"))[0][0]
    last, total = 0, 0
    while True:
        ((count, last_one, _),) = await runner.run(
            "webhooks", "replay", id, number, since, until, list(types) or None, event, last, BATCH, dry_run, ATTEMPTS,
            actor(),
        )  # fmt: skip
        total += count
        if count:
            yield total
        if count < BATCH:
            return
        last = last_one


async def test(runner: Runner, id: UUID, webhooks: Webhooks) -> EndpointAttempt:
    """Send one signed event to an endpoint, now and from here, whatever its status is. Nothing is stored."""
    rows = await runner.run("webhooks", "load", [id])
    if not rows:
        raise _none(id)
    event = new_id()
    now = datetime.now(UTC)
    message = Message(
        delivery=event, id=str(event), event_id=str(event), source="holdfast", type=TEST_TYPE,
        data=b'{"test": true}', version=1, key=None, tenant=None, at=now, headers={}, attempt=1,
    )  # fmt: skip
    async with new_sender(webhooks) as sender:
        answer = await attempt(sender, message, endpoint_of(rows[0]))
    delivered = answer.status is not None and 200 <= answer.status < 300
    return EndpointAttempt(
        None, event, 1, datetime.now(UTC), delivered, answer.status, answer.ms, answer.address,
        None if delivered else reason(answer), answer.text,
    )  # fmt: skip


def instant(since: datetime | Duration) -> datetime:
    """A time, or how long ago."""
    if not isinstance(since, datetime):
        return datetime.now(UTC) - timedelta(seconds=seconds(since, "since"))
    if since.tzinfo is None:
        raise InvalidInput("since", "expected a time with a time zone, such as datetime.now(UTC)")
    return since


async def _change(runner: Runner, id: UUID, status: str, why: str | None, only: Sequence[str], advice: str) -> int:
    """Change its status. Returns how many deliveries were moved by that."""
    rows = await runner.run("webhooks", "change", id, status, why, list(only), None, actor())
    if not rows:
        raise _none(id)
    if rows[0]["moved"] is None:
        raise ConfigurationError(f"Endpoint {id} is {rows[0]['was']}; {advice}")
    return int(rows[0]["moved"])


async def _held(runner: Runner, id: UUID, moved: int) -> int:
    """How many of its deliveries wait until it is active: also those that were held before."""
    try:
        return (await state(runner, id)).held
    except (Unreachable, Contended):  # its status has changed: that must not look like a failure
        return moved


def _none(id: UUID) -> NotFound:
    return NotFound(f"There is no endpoint {id}; see holdfast endpoint list")


def _attempt(row: Mapping[str, Any] | asyncpg.Record) -> EndpointAttempt:
    return EndpointAttempt(**dict(row))
