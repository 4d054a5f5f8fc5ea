"""What operators ask of the outbox, and do to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ..db.acting import actor
from ..db.runner import Runner
from ..errors import NotFound
from ..model.event import ENDPOINTS

BATCH = 1000
LATELY = 300.0
"""Seconds that count as lately."""
PAGES = 4000
"""Most pages of the archive, 8 KiB each, that are read for it."""


async def routes(
    runner: Runner, depths: Mapping[str, Mapping[str, Any]] | None = None, pages: int = PAGES
) -> list[dict[str, Any]]:
    """Every route, with how many deliveries wait and how old the oldest is, and what was delivered lately.

    `depths`: what waits, by queue, if it is known; otherwise it is counted. `pages`: how many of the archive are read.
    """
    waiting: Mapping[str, Any] = (
        {row["queue"]: row for row in await runner.run("views", "queues")} if depths is None else depths
    )
    lately = {row["queue"]: row for row in await runner.run("outbox", "lately", LATELY, pages)}
    return [_route(dict(row), waiting, lately) for row in await runner.run("outbox", "routes")]


def _route(row: dict[str, Any], waiting: Mapping[str, Any], lately: Mapping[str, Any]) -> dict[str, Any]:
    depth = [waiting[name] for name in waiting if name == row["queue"] or name.startswith(f"{row['queue']}.")]
    # A row of the route to endpoints is no delivery: it becomes those to endpoints. Another route may have its name.
    ended = lately.get(f"{row['queue']}.endpoints" if row["destination"] == ENDPOINTS else row["queue"])
    return {
        **row,
        "waiting": sum(each["pending"] + each["blocked"] + each["processing"] for each in depth),
        "dead_letters": sum(each["dead_letters"] for each in depth),
        "oldest": max((each["claim_age"] or 0.0 for each in depth), default=0.0),
        "delivered": ended["deliveries"] if ended else 0,
        "lag_p50": ended["half"] if ended else None,
        "lag_p99": ended["most"] if ended else None,
        "paused_at": next((each["paused_at"] for each in depth if each["queue"] == row["queue"]), None),
    }


async def event(runner: Runner, id: UUID) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An event, and its deliveries."""
    rows = await runner.run("outbox", "show", id)
    if not rows:
        raise NotFound(f"There is no event {id}; events are kept for event_days")
    return dict(rows[0]), [dict(row) for row in await runner.run("outbox", "deliveries", [id])]


async def recent(runner: Runner, types: Sequence[str], limit: int, among: int | None = None) -> list[dict[str, Any]]:
    """The newest events, each with the state of its deliveries. `among`: how many are looked through for the types."""
    found = [dict(row) for row in await runner.run("outbox", "recent", list(types) or None, limit, among)]
    deliveries: dict[UUID, list[str]] = {row["id"]: [] for row in found}
    for row in await runner.run("outbox", "deliveries", list(deliveries)):
        again = f" (replay {row['replay']})" if row["replay"] else ""
        deliveries[row["event"]].append(f"{row['destination']}{again}: {row['status']}")
    return [{**row, "deliveries": deliveries[row["id"]]} for row in found]


async def replay(
    runner: Runner,
    route: str,
    since: datetime,
    until: datetime,
    types: Sequence[str] = (),
    event: UUID | None = None,
    dry_run: bool = False,
) -> AsyncIterator[int]:
    """Deliver events once more along a route. Yields how many so far, after each batch, which is a commit."""
    if route not in {row["name"] for row in await runner.run("outbox", "routes")}:
        raise NotFound(f"There is no route {route!r}; holdfast outbox routes lists them")
    number = 0 if dry_run else (await runner.run("outbox", "next_replay"))[0][0]
    last, total = 0, 0
    while True:
        ((count, last_one, _),) = await runner.run(
            "outbox", "replay", route, number, since, until, list(types) or None, event, last, BATCH, dry_run, actor()
        )
        total += count
        if count:
            yield total
        if count < BATCH:
            return
        last = last_one


async def remove_route(runner: Runner, name: str) -> str:
    """Let a route get no new events. Returns its queue; what waits there is still delivered."""
    rows = await runner.run("outbox", "remove_route", name, actor())
    if not rows:
        raise NotFound(f"There is no route {name!r}; holdfast outbox routes lists them")
    return str(rows[0][0])
