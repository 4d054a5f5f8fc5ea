from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request

from ...errors import InvalidInput
from ...model.durations import seconds
from ...outbox import operating
from ...views import numbers
from ...webhooks import operating as endpoints
from ..answers import body, text_of
from ..desk import PAGE, Desk, Route, get, post, row, uuid_of, word

READ = 500
"""Pages of the archive that are read for what was delivered lately."""
EVENTS = 1_000
"""The newest events, whose attempts the page of an endpoint shows."""
WINDOW = 20_000
"""Events that are looked through for a type."""
MOST_REPLAYED = 10_000
"""Events of one replay from the page; for more there is the command."""


async def outbox(desk: Desk, request: Request) -> Any:
    types = [word(request, "type")] if word(request, "type") else []
    return {
        "routes": await operating.routes(desk.reading, await _depths(desk), pages=READ),
        "endpoints": [_endpoint(each) for each in await endpoints.states(desk.reading)],
        "events": await operating.recent(desk.reading, [each for each in types if each], PAGE, WINDOW),
    }


async def _depths(desk: Desk) -> dict[str, dict[str, Any]]:
    """What waits in each queue, from the gauges."""
    current = await numbers.current(desk.reading)
    paused = {each["name"]: each["paused_at"] for each in await desk.reading.run("views", "modes")}
    names = ("pending", "blocked", "processing", "dead_letters")
    return {
        each.queue: {
            "queue": each.queue, "claim_age": each.claim_age, "paused_at": paused.get(each.queue),
            **{name: each.jobs[name].value if name in each.jobs else 0 for name in names},
        }
        for each in current.queues
    }  # fmt: skip


def _endpoint(each: endpoints.EndpointState) -> dict[str, Any]:
    names = ("id", "tenant", "url", "types", "status", "ordered", "description", "failing_since", "disabled_at",
             "disabled_reason", "created_at", "held")  # fmt: skip
    return {name: getattr(each, name) for name in names}


async def event(desk: Desk, request: Request) -> Any:
    found, deliveries = await operating.event(desk.reading, uuid_of(request.path_params["id"]))
    return {
        **row(found, "data", "headers"),
        "data": desk.text(found["data"]),
        "headers": desk.text(found["headers"]),
        "deliveries": [{**each, "result": desk.text(each["result"])} for each in deliveries],
    }


async def endpoint(desk: Desk, request: Request) -> Any:
    id = uuid_of(request.path_params["id"])
    found = await endpoints.state(desk.reading, id)
    attempts = await endpoints.attempts_lately(desk.reading, id, EVENTS, 100)
    return {**_endpoint(found), "attempts": attempts}


async def change(desk: Desk, request: Request) -> Any:
    given = await body(request)
    id, verb = uuid_of(request.path_params["id"]), request.path_params["verb"]
    with desk.acting(request) as app:
        match verb:
            case "pause":
                return {"done": f"Paused; {await app.pause_endpoint(id)} deliveries wait."}
            case "resume":
                return {"done": f"Active again; {await app.resume_endpoint(id)} deliveries had waited."}
            case "enable":
                return {"done": f"Active again; {await app.enable_endpoint(id)} deliveries had waited."}
            case "disable":
                await app.disable_endpoint(id, str(given.get("reason") or "disabled in the dashboard"))
                return {"done": "Disabled: nothing is sent, and nothing is stored for it."}
            case "recover":
                found = await app.recover_endpoint(id, since=text_of(given, "since"))
                return {"done": f"{found.revived} dead letters and {found.missed} missed events are sent again."}
    raise InvalidInput("verb", "expected pause, resume, enable, disable or recover")


async def replay(desk: Desk, request: Request) -> Any:
    """Deliver events once more: one, or those of a time. `dry`: only count them."""
    given = await body(request)
    route, dry = text_of(given, "route"), given.get("dry") is not False
    one = uuid_of(given["event"], "event") if given.get("event") else None
    since = datetime.min.replace(tzinfo=UTC)
    if one is None:
        since = datetime.now(UTC) - timedelta(seconds=seconds(text_of(given, "since"), "since"))
    until = datetime.now(UTC) + timedelta(hours=1)
    with desk.acting(request) as app:
        total = 0
        async for total in operating.replay(desk.reading if dry else app._calls, route, since, until, (), one, dry):
            if total > MOST_REPLAYED:
                raise InvalidInput(
                    "since",
                    f"more than {MOST_REPLAYED} events; use the command: holdfast outbox replay --route {route}"
                    + ("" if dry else f". {total} events are already being sent again"),
                )
    return {"events": total, "dry": dry}


ROUTES: list[Route] = [
    get("/outbox", outbox),
    get("/outbox/events/{id}", event),
    get("/outbox/endpoints/{id}", endpoint),
    post("/outbox/endpoints/{id}/{verb}", change),
    post("/outbox/replay", replay),
]
