from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ...schedules import operating
from ...schedules.operating import ScheduleState
from ..answers import body, text_of
from ..desk import Desk, Route, get, post

SHOWN = (
    "name", "source", "kind", "when", "tz", "missed", "paused_at", "last_slot", "last_job", "next_slots", "skipped",
    "error", "state", "gone_since",
)  # fmt: skip


async def schedules(desk: Desk, request: Request) -> Any:
    return {"schedules": [_shown(desk, each) for each in await operating.states(desk.reading)]}


def _shown(desk: Desk, each: ScheduleState) -> dict[str, Any]:
    return {
        **{name: getattr(each, name) for name in SHOWN},
        "args": desk.text(each.args),
    }


async def pause(desk: Desk, request: Request) -> Any:
    name = text_of(await body(request), "name")
    with desk.acting(request) as app:
        await app.pause_schedule(name)
    return {"done": f"Schedule {name} is paused."}


async def resume(desk: Desk, request: Request) -> Any:
    name = text_of(await body(request), "name")
    with desk.acting(request) as app:
        await app.resume_schedule(name)
    return {"done": f"Schedule {name} fires again, from its next slot on."}


async def trigger(desk: Desk, request: Request) -> Any:
    name = text_of(await body(request), "name")
    with desk.acting(request) as app:
        job = await app.trigger_schedule(name)
    return {"done": f"Schedule {name} has enqueued a job.", "job": job.id}


ROUTES: list[Route] = [
    get("/schedules", schedules),
    post("/schedules/pause", pause),
    post("/schedules/resume", resume),
    post("/schedules/trigger", trigger),
]
