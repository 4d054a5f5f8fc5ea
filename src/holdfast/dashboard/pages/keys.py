from __future__ import annotations

from typing import Any

from starlette.requests import Request

from ..desk import PAGE, Desk, Route, get, row, word

PAGES = 2000
"""Pages of the inbox, 8 KiB each, that are read: above it, the numbers are scaled up from a sample."""


async def keys(desk: Desk, request: Request) -> Any:
    found = await desk.reading.run("views", "hot_keys", word(request, "queue"), PAGE, PAGES)
    return {"keys": [row(each) for each in found], "sampled": any(each["share"] < 1 for each in found)}


ROUTES: list[Route] = [get("/keys", keys)]
