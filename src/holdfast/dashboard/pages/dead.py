"""Dead letters: groups, rows, and what is done to all that match.

A bulk action is about a filter, not about the rows on the page: the preview says how many it is, since when, and shows
some. It takes what died until the preview, in parts, so that a page can show how far it is, and stop.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.requests import Request

from ...errors import InvalidInput
from ..answers import body
from ..desk import PAGE, Desk, Route, get, post, row, uuid_of, word

WINDOW = 20_000
COUNTED = 10_000
"""The most that a preview counts."""
TYPED = 100
"""Above this, who acts types the number."""
PART = 2_000
"""Jobs of one request of a bulk action."""
SAMPLES = 5
GROUPS, OF_GROUP = 50, 1_000
"""Groups that are listed, and how far the jobs of each are counted."""
VERBS = ("revive", "discard")


class Filter:
    """Which dead letters."""

    def __init__(self, given: Any) -> None:
        self.words = tuple(given.get(name) or None for name in ("group", "queue", "kind", "text"))

    @property
    def page(self) -> str:
        return "dead_group_page" if self.words[0] is not None else "dead_page"


async def dead(desk: Desk, request: Request) -> Any:
    at, id = word(request, "before_at"), word(request, "before")
    before = (_time(at, "before_at"), uuid_of(id, "before")) if at and id else (None, None)
    found, further = await _page(desk, Filter(request.query_params), before, None, PAGE)
    return {"jobs": found, "further": further}


async def _page(desk: Desk, which: Filter, before: tuple[Any, Any], until: datetime | None, most: int) -> Any:
    rows = await desk.reading.run("views", which.page, *before, until, *which.words, WINDOW, most)
    listed = [row(each, "reach", "reached_at") for each in rows if each["id"] is not None]
    if len(listed) == most:
        return listed, {"before_at": listed[-1]["dead_at"], "before": listed[-1]["id"]}
    reached = next((each for each in rows if each["id"] is None), None)
    return listed, reached and {"before_at": reached["reached_at"], "before": reached["reach"]}


async def groups(desk: Desk, request: Request) -> Any:
    return {"groups": await found_groups(desk)}


async def found_groups(desk: Desk) -> list[dict[str, Any]]:
    """Alike dead letters, the group with the newest one first. Counts are bounded: "more" says that there are more."""
    rows = await desk.reading.run("views", "dead_groups", GROUPS, OF_GROUP)
    return [
        {**{name: each[name] for name in ("group", "more", "newest", "oldest", "queue", "kind", "place")},
         "jobs": each["count"], "error": each["error"] or "Dead letters", "message": each["last_error"]}
        for each in rows
    ]  # fmt: skip


async def preview(desk: Desk, request: Request) -> Any:
    which = Filter(request.query_params)
    ((until,),) = await desk.reading.run("views", "now")
    ((jobs, oldest),) = await desk.reading.run("views", "dead_count", until, *which.words, COUNTED + 1)
    samples, _ = await _page(desk, which, (None, None), until, SAMPLES)
    return {
        "jobs": min(jobs, COUNTED),
        "more": jobs > COUNTED,
        "oldest": oldest,
        "until": until,
        "samples": samples,
        "typed": _typed(jobs),
    }


def _typed(jobs: int) -> str | None:
    """What must be typed to act on so many; None: nothing."""
    return None if jobs <= TYPED else str(jobs) if jobs <= COUNTED else "all"


async def bulk(desk: Desk, request: Request) -> Any:
    """Revive or discard a part of what matches. The page asks again until nothing is left."""
    given = await body(request)
    verb, expected = given.get("verb"), given.get("expected")
    if verb not in VERBS:
        raise InvalidInput("verb", f"expected one of {', '.join(VERBS)}; got {verb!r}")
    if not isinstance(expected, int) or isinstance(expected, bool):
        raise InvalidInput("expected", "expected the number that the preview showed")
    which, until = Filter(given), _time(given.get("until"), "until")
    await _check(desk, which, until, expected, given.get("typed"))
    last = given.get("further")
    before = (
        (_time(last["before_at"], "before_at"), uuid_of(last["before"])) if isinstance(last, dict) else (None, None)
    )
    found, further = await _page(desk, which, before, until, PART)
    with desk.acting(request) as app:
        done = await getattr(app, verb)([each["id"] for each in found])
    return {"done": len(done), "further": further}


async def _check(desk: Desk, which: Filter, until: datetime, expected: int, typed: object) -> None:
    if (wanted := _typed(expected)) is not None and typed != wanted:
        raise InvalidInput("typed", f"expected {wanted}, as the preview asks, because so many jobs are affected")
    if expected <= COUNTED:
        ((jobs, _),) = await desk.reading.run("views", "dead_count", until, *which.words, expected + 1)
        if jobs > expected:
            raise InvalidInput("expected", f"more jobs match than the {expected} of the preview; look at it again")


async def some(desk: Desk, request: Request) -> Any:
    """Revive or discard the jobs that were selected."""
    given = await body(request)
    verb, ids = given.get("verb"), given.get("ids")
    if verb not in VERBS:
        raise InvalidInput("verb", f"expected one of {', '.join(VERBS)}; got {verb!r}")
    if not isinstance(ids, list) or not 1 <= len(ids) <= 1000:
        raise InvalidInput("ids", "expected 1 to 1000 ids")
    with desk.acting(request) as app:
        done = await getattr(app, verb)([uuid_of(each) for each in ids])
    words = "revived: pending again, with a full set of attempts" if verb == "revive" else "discarded"
    return {"done": f"{len(done)} of {len(ids)} {words}."}


def _time(text: object, name: str) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        raise InvalidInput(name, f"expected a time, got {text!r}") from None
    if at.tzinfo is None:
        raise InvalidInput(name, "expected a time with a time zone")
    return at


ROUTES: list[Route] = [
    get("/dead", dead),
    get("/dead/groups", groups),
    get("/dead/preview", preview),
    post("/dead/bulk", bulk),
    post("/dead/some", some),
]
