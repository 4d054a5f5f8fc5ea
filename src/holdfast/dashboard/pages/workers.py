from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from ...model.keys import BUCKETS
from ...model.ring import Ring
from ..answers import body, text_of
from ..desk import Desk, Route, get, post

MOST = 200
"""Workers that are listed: live ones, and those that were seen last."""


async def workers(desk: Desk, request: Request) -> Any:
    found = await desk.reading.run("views", "workers")
    listed = [_shown(each) for each in found]
    owned = [name for (name,) in await desk.reading.run("views", "owned")]
    return {
        "workers": listed[:MOST],
        "more": max(len(listed) - MOST, 0),
        "rings": [_ring(listed, name) for name in owned],
    }


def _shown(each: Any) -> dict[str, Any]:
    facts = msgspec.json.decode(each["metadata"]) if each["metadata"] is not None else {}
    facts = facts if isinstance(facts, dict) else {}  # a heartbeat written by hand may hold anything
    counters, queues = facts.get("counters"), facts.get("queues")
    counters = counters if isinstance(counters, dict) else {}
    queues = queues if isinstance(queues, list) else []
    return {
        "id": each["id"],
        "status": each["status"],
        "live": each["live"],
        "silent": each["silent"],
        "started_at": each["started_at"],
        "queues": [str(queue) for queue in queues],
        "isolation": bool(facts.get("isolation")),
        "host": facts.get("host"),
        "pid": facts.get("pid"),
        "version": facts.get("version"),
        "hands": facts.get("concurrency"),
        **{name: counters.get(name) for name in ("running", "completed", "retried", "dead", "lease_lost", "listening")},
    }


def _ring(listed: list[dict[str, Any]], queue: str) -> dict[str, Any]:
    """The ring, as the workers compute it from this registry: the owner of every bucket, as a place in "members"."""
    ring = Ring(each["id"] for each in listed if each["live"] and queue in each["queues"])
    members = sorted(ring.members)
    places = {member: place for place, member in enumerate(members)}
    owners = [places.get(ring.owner(bucket) or "", -1) for bucket in range(BUCKETS)]
    return {"queue": queue, "members": members, "shares": ring.shares(), "owners": owners}


async def drain(desk: Desk, request: Request) -> Any:
    worker = text_of(await body(request), "worker")
    with desk.acting(request) as app:
        drained = await app.drain_workers([worker])
    return {"done": f"{worker} drains." if drained else f"{worker} was draining already, or has ended."}


ROUTES: list[Route] = [get("/workers", workers), post("/workers/drain", drain)]
