"""The story: what happened, in words. The graphs have the same as marks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request

from ...errors import InvalidInput
from ...journal.reading import incidents as told
from ...journal.story import Incident
from ...model.durations import seconds
from ..desk import Desk, Route, get, word

WITHIN = "1h"
MOST = 500
BAD = ("died", "killed", "lost", "away", "burst", "dead", "failed", "refused", "cannot")
WARN = ("paused", "pinned", "drain", "swept", "jump", "discarded", "cancelled", "silent", "disabled", "absent")


async def incidents(desk: Desk, request: Request) -> Any:
    ((now,),) = await desk.reading.run("views", "now")
    within = timedelta(seconds=seconds(word(request, "within") or WITHIN, "within"))
    around = word(request, "around")
    begin, end = (now - within, now + timedelta(minutes=1)) if around is None else _around(around, now, within)
    found = await told(desk.reading, begin, end, MOST)
    return {"since": begin, "until": end, "lines": [line(each) for each in found]}


def line(each: Incident) -> dict[str, Any]:
    return {
        "at": each.at,
        "time": f"{each.at:%H:%M:%S}",
        "text": each.text,
        "what": each.what,
        "level": level(each.what),
    }


def level(what: str) -> str:
    """How much it hurts, as a colour; what nobody knows is neutral."""
    if any(part in what for part in BAD):
        return "bad"
    return "warn" if any(part in what for part in WARN) else "ok"


def _around(text: str, now: datetime, within: timedelta) -> tuple[datetime, datetime]:
    """The time around a moment: of the last 24 hours, if no day is given."""
    try:
        if len(text) <= 8:
            hour, minute, *_ = [int(part) for part in text.split(":")]
            at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            at = at if at <= now else at - timedelta(days=1)
        else:
            at = datetime.fromisoformat(text.replace("Z", "+00:00"))
            at = at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)
    except ValueError:
        raise InvalidInput(
            "around", f"expected a time in UTC, such as 03:12 or 2026-01-31T03:12; got {text!r}"
        ) from None
    return at - within / 2, at + within / 2


ROUTES: list[Route] = [get("/incidents", incidents)]
