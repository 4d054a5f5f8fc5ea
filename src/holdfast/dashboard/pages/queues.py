from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ...views import numbers
from ...views.numbers import QueueNumbers
from ..answers import body
from ..desk import Desk, Route, get, post


async def queues(desk: Desk, request: Request) -> Any:
    current = await numbers.current(desk.reading)
    modes = {each["name"]: each for each in await desk.reading.run("views", "modes")}
    return {"age": current.age, "queues": [shown(each, modes.get(each.queue)) for each in current.queues]}


def shown(each: QueueNumbers, mode: Any) -> dict[str, Any]:
    """One line of the page."""
    lately = each.lately
    return {
        "queue": each.queue,
        "jobs": {state: [count.value, count.exact] for state, count in each.jobs.items()},
        "claim_age": each.claim_age,
        "paused_at": mode["paused_at"] if mode is not None else None,
        "mode": _mode(mode),
        "throughput": lately.throughput if lately is not None else 0.0,
        "retry_rate": lately.retry_rate if lately is not None else None,
        "run_p95": lately.attempts.run.quantile(0.95) if lately is not None else None,
        "pickup_p95": lately.attempts.pickup.quantile(0.95) if lately is not None else None,
        "unclaimable": {kind: [count.value, count.exact] for kind, count in each.unclaimable.items()},
    }


def _mode(mode: Any) -> str:
    if mode is None:
        return "free"
    order = [] if not mode["ordered"] else ["ordered, skips" if mode["skips"] else "ordered"]
    return ", ".join([*order, *(["owned"] if mode["owned"] else [])]) or "free"


async def pause(desk: Desk, request: Request) -> Any:
    await body(request)
    with desk.acting(request) as app:
        await app.pause(request.path_params["queue"])
    return {"done": f"Queue {request.path_params['queue']} is paused. Running jobs finish."}


async def resume(desk: Desk, request: Request) -> Any:
    await body(request)
    with desk.acting(request) as app:
        await app.resume(request.path_params["queue"])
    return {"done": f"Queue {request.path_params['queue']} is claimed from again."}


ROUTES: list[Route] = [
    get("/queues", queues),
    post("/queues/{queue:path}/pause", pause),
    post("/queues/{queue:path}/resume", resume),
]
