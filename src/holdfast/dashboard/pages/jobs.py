from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request

from ...errors import InvalidInput, NotFound
from ...explaining import explain
from ...views.questions import LIVE
from ..answers import body
from ..desk import PAGE, Desk, Route, get, page, post, row, uuid_of, word

WINDOW = 20_000
"""Rows that a page is chosen from: what matches little is then found in further ones."""
SEARCHED = 5_000
"""The same, for a text in payloads, which costs more per row."""
RUNNING = 10_000
ENDED = ("completed", "failed", "cancelled", "expired", "discarded")
LISTED = (*LIVE, "scheduled", "retrying", *ENDED)


async def jobs(desk: Desk, request: Request) -> Any:
    status, queue, kind = word(request, "status"), word(request, "queue"), word(request, "kind")
    key, text, worker = word(request, "key"), word(request, "text"), word(request, "worker")
    if status is not None and status not in (*LISTED, "ended"):
        raise InvalidInput("status", f"expected one of {', '.join((*LISTED, 'ended'))}; got {status!r}")
    if worker is not None or (status == "processing" and text is None):
        found = await desk.reading.run("views", "running_page", queue, kind, key, worker, RUNNING, PAGE)
        return {"jobs": [row(each) for each in found], "further": None}
    before = uuid_of(word(request, "before"), "before") if word(request, "before") else None
    ended = status == "ended" or status in ENDED
    name, state = ("ended_page" if ended else "live_page"), (None if status == "ended" else status)
    window = SEARCHED if text else WINDOW
    found = await desk.reading.run("views", name, before, window, state, queue, kind, key, text, PAGE)
    listed, further = page(found)
    shown = [row(each, "payload", "reach") for each in listed if text is None or _really(desk, each, text)]
    return {"jobs": shown, "further": further, "looked_at": window}


def _really(desk: Desk, each: Any, text: str) -> bool:
    """Does the text occur in what viewers may see? Otherwise a search would tell what is hidden."""
    if text in (each["last_error"] or ""):
        return True
    return text in json.dumps(desk.shown(msgspec.json.decode(each["payload"])), ensure_ascii=False)


async def job(desk: Desk, request: Request) -> Any:
    id = uuid_of(request.path_params["id"])
    rows = await desk.reading.run("views", "job", id)
    if not rows:
        raise NotFound(f"There is no job {id}; ended jobs are kept for archive_days, or as their task says (keep)")
    found = rows[0]
    errors = msgspec.json.decode(found["errors"]) if found["errors"] is not None else []
    explained = await explain(desk.reading, desk.app._database, id)
    return {
        **row(found, "payload", "headers", "result", "errors", "progress", "fence", "generation"),
        "fence": str(found["fence"]) if found["fence"] is not None else None,
        "generation": str(found["generation"]),
        "payload": desk.text(found["payload"]),
        "headers": desk.text(found["headers"]),
        "result": desk.text(found["result"]),
        "progress": msgspec.json.decode(found["progress"]) if found["progress"] is not None else None,
        "errors": [desk.shown(each) for each in errors] if isinstance(errors, list) else [],
        "explanation": explained,
        "workflow": await _is_workflow(desk, id),
    }


async def _is_workflow(desk: Desk, id: UUID) -> bool:
    return bool(await desk.reading.run("workflow", "show", str(id)))


async def search(desk: Desk, request: Request) -> Any:
    """Find what a word names exactly; the page then looks for it as a text."""
    text = word(request, "q")
    if text is None:
        raise InvalidInput("q", "expected a text")
    try:
        id = UUID(text)
    except ValueError:
        id = None
    queues = [each["name"] for each in await desk.reading.run("views", "modes")] + ["default"]
    found = await desk.reading.run("views", "named", text, id, sorted(set(queues)), PAGE)
    instance = await desk.reading.run("workflow", "find", text)
    event = await desk.reading.run("outbox", "show", id) if id is not None else []
    return {
        "jobs": [row(each) for each in found],
        "instance": text if instance and instance[0][0] is not None else None,
        "event": id if event else None,
    }


async def cancel(desk: Desk, request: Request) -> Any:
    given = await body(request)
    id = uuid_of(request.path_params["id"])
    with desk.acting(request) as app:
        became = await app.cancel(id, str(given.get("reason") or "cancelled in the dashboard"))
    done = "The job is cancelled." if became == "cancelled" else "The job runs; its handler is told to stop."
    return {"done": done}


async def run_now(desk: Desk, request: Request) -> Any:
    await body(request)
    id = uuid_of(request.path_params["id"])
    with desk.acting(request) as app:
        ran = await app.run_now([id])
    return {"done": "The job is due now." if ran else "Nothing changed: the job does not wait for its time."}


ROUTES: list[Route] = [
    get("/jobs", jobs),
    get("/search", search),
    get("/jobs/{id}", job),
    post("/jobs/{id}/cancel", cancel),
    post("/jobs/{id}/run-now", run_now),
]
