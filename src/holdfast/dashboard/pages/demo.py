"""The page of a demo: its buttons, and below them the recovery as it happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from starlette.requests import Request

from ...errors import InvalidInput
from ...journal.reading import incidents as told
from ..answers import body
from ..controls import Controls
from ..desk import Desk, Route, get, post
from .incidents import line

WITHIN = timedelta(minutes=15)
READ, SHOWN = 100, 12
"""Rows of the journal that are read, and lines of their story that are shown: the newest."""


def routes(controls: Controls) -> list[Route]:
    return [
        get("/demo", partial(_demo, controls)),
        post("/demo/kill", partial(_named, controls.kill)),
        post("/demo/drain", partial(_named, controls.drain)),
        post("/demo/add", partial(_plain, controls.add)),
        post("/demo/pin", partial(_plain, controls.pin)),
        post("/demo/release", partial(_plain, controls.release)),
    ]


async def _demo(controls: Controls, desk: Desk, request: Request) -> Any:
    ((now,),) = await desk.reading.run("views", "now")
    found = await told(desk.reading, now - WITHIN, now + timedelta(minutes=1), READ)
    paused = {each["name"] for each in await desk.reading.run("views", "modes") if each["paused_at"]}
    shown = controls.shown()
    return {
        **shown,
        "queues": [{"queue": queue, "paused": queue in paused} for queue in shown["queues"]],
        "lines": [line(each) for each in found[-SHOWN:]],
    }


async def _named(act: Callable[[str | None], Awaitable[str]], desk: Desk, request: Request) -> Any:
    worker = (await body(request)).get("worker")
    if worker is not None and not isinstance(worker, str):
        raise InvalidInput("worker", "expected the name of a worker, or nothing")
    with desk.acting(request):
        return {"done": await act(worker)}


async def _plain(act: Callable[[], Awaitable[str]], desk: Desk, request: Request) -> Any:
    await body(request)
    with desk.acting(request):
        return {"done": await act()}
