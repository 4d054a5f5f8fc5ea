from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec
from starlette.requests import Request

from ...errors import InvalidInput
from ...explaining import explain
from ...instance_states import InstanceState, instance_state
from ...instances import STATES
from ...workflow import operating
from ..answers import body, text_of
from ..desk import PAGE, Desk, Route, get, page, post, uuid_of, word

WAITED, NEWEST, CANDIDATES = 2_000, 20_000, 2_000
"""What a page is chosen from: instances that have waited, jobs that may be instances, and of both together."""
HELD_BACK = ("arguments", "result", "errors", "steps", "signals")


async def instances(desk: Desk, request: Request) -> Any:
    state = word(request, "state")
    if state is not None and state not in STATES:
        raise InvalidInput("state", f"expected one of {', '.join(STATES)}; got {state!r}")
    before = uuid_of(word(request, "before"), "before") if word(request, "before") else None
    rows = await desk.reading.run(
        "views", "instances_page", before, WAITED, NEWEST, CANDIDATES, word(request, "workflow"), state, PAGE
    )
    listed, further = page(rows, "job_id")
    return {"instances": [_plain(instance_state(dict(each))) for each in listed], "further": further, "states": STATES}


def _plain(where: InstanceState) -> dict[str, Any]:
    return {each.name: getattr(where, each.name) for each in fields(where) if each.name not in HELD_BACK}


async def instance(desk: Desk, request: Request) -> Any:
    id = request.path_params["id"]
    where = instance_state(dict(await operating.show(desk.reading, id)))
    steps = [
        {
            **{each.name: getattr(step, each.name) for each in fields(step) if each.name not in ("result", "errors")},
            "shown": step.shown,
            "result": desk.text(step.result),
            "errors": [desk.shown(error) for error in step.errors],
        }
        for step in where.steps
    ]
    signals = [
        {"n": each.n, "name": each.name, "sent_at": each.sent_at, "taken_by": each.taken_by,
         "payload": desk.text(each.payload)}
        for each in where.signals
    ]  # fmt: skip
    ((now,),) = await desk.reading.run("views", "now")
    return {
        **_plain(where),
        "now": now,
        "arguments": desk.text(where.arguments),
        "result": desk.text(where.result),
        "errors": [desk.shown(error) for error in where.errors],
        "steps": steps,
        "signals": signals,
        "explanation": await explain(desk.reading, desk.app._database, where.job_id),
    }


async def act(desk: Desk, request: Request) -> Any:
    given = await body(request)
    id, verb = request.path_params["id"], request.path_params["verb"]
    with desk.acting(request) as app:
        match verb:
            case "cancel":
                became = await app.cancel_instance(id, str(given.get("reason") or "cancelled in the dashboard"))
                done = "Cancelled." if became == "cancelled" else "No further step starts; finished ones are undone."
            case "pause":
                await app.pause_instance(id)
                done = "Paused: it finishes the step that it is in."
            case "resume":
                done = "It goes on." if await app.resume_instance(id) else "It was neither paused nor a dead letter."
            case "restart":
                dropped = await app.restart_instance(id, text_of(given, "step"))
                done = f"It runs again from {given['step']} on; {dropped} recorded steps are forgotten."
            case "signal":
                became = await app.signal(id, text_of(given, "name"), _payload(given.get("payload")))
                done = f"Signal {given['name']}: {became}."
            case _:
                raise InvalidInput("verb", "expected cancel, pause, resume, restart or signal")
    return {"done": done}


def _payload(text: object) -> Any:
    if text is None or text == "":
        return None
    try:
        return msgspec.json.decode(str(text))
    except msgspec.DecodeError as error:
        raise InvalidInput("payload", f"expected JSON: {error}") from None


ROUTES: list[Route] = [
    get("/workflows", instances),
    get("/workflows/{id:path}", instance),
    post("/workflows/{id:path}/{verb}", act),
]
