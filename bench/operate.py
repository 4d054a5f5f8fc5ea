"""Operate: what operators, viewers and scrapers ask, beside many live jobs, instances, dead letters and archived jobs.

*Churned*: every page of the inbox was written since its last vacuum, so that no index is enough by itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import asyncpg

from holdfast import Holdfast
from holdfast.dashboard.application import Dashboard
from holdfast.db.database import Database
from holdfast.db.link import Link
from holdfast.metrics.families import installation_page, worker_page
from holdfast.model.numbers import Attempts, Histogram
from holdfast.views import numbers

from .archive import _fill as fill_archive
from .figures import Results, at_most
from .ground import Ground, connected
from .turns import say

REPEATS = 7
CHUNK = 50_000

_KINDS = """
    insert into holdfast.kinds (kind, version, app, arguments, workflow) values ('kind 7', 1, 'shop', '{}', true);
    insert into holdfast.queues (name, owned) values ('queue 1', true);
    insert into holdfast.endpoints (url, secrets)
    select 'https://example.com/' || n, '[{}]' from generate_series(1, 20) n
"""
_LIVE = """
    insert into holdfast.inbox (
        partition_key, partition_bucket, queue, priority, kind, payload, status, attempts, available_at, dead_at,
        last_error, error_group, errors, lease_generation, idempotency_key)
    select 'key ' || n % 1000, n % 1024, 'queue ' || n % 10, n % 3, 'kind ' || n % 10,
           jsonb_build_object('type', 'kind ' || n % 10, 'number', n, 'note', repeat('x', 60)),
           (case when n % 20 < 3 then 'dead_letter' else 'pending' end)::holdfast.inbox_status,
           case when n % 20 < 3 then 5 else 0 end,
           now() + make_interval(secs => case when n % 4 = 0 or n % 10 = 7 then 3600 else -60 end),
           case when n % 20 < 3 then now() - make_interval(secs => n / 100) end,
           case when n % 20 < 3 then 'ConnectionError: away' end,
           case when n % 20 < 3 then 'group ' || n % 40 end,
           case when n % 20 < 3 then '[{"error": "ConnectionError", "place": "shop.py:7"}]'::jsonb end,
           (n % 10 = 7)::int,
           case when n % 10 = 7 then 'flow ' || n end
    from generate_series($1::int, $2::int) n
"""
_WAITING = """
    insert into holdfast.instances (job_id, parked_generation, waits, waits_since, wake_at)
    select id, 1, array['timer:nap'], now(), available_at from holdfast.inbox where kind = 'kind 7' and seq % 4 = 1
"""
_STEPS = """
    insert into holdfast.steps (
        job_id, name, n, ordinal, kind, status, result, attempts, generation, started_at, ended_at)
    select i.job_id, 'step ' || s, 0, s, 'step', 'done', '{}', 1, 1, now(), now()
    from holdfast.instances i, generate_series(1, 3) s
"""
_EVENTS = """
    insert into holdfast.events (id, published_at, source, type, key, data)
    select holdfast.uuidv7(), now(), 'shop', 'order.' || n % 5, n::text, '{}' from generate_series(1, $1::int) n
"""
_MINUTES = """
    insert into holdfast.minutes (at, queue, kind, started, completed, retried, run, pickup, depth, claim_age)
    select date_trunc('minute', now()) - make_interval(mins => m), 'queue ' || k % 10, 'kind ' || k, 100, 95, 5,
           array_fill(4, array[23]), array_fill(4, array[23]), null, null
    from generate_series(0, $1::int - 1) m, generate_series(1, 40) k
"""

Ask = Callable[[], Awaitable[object]]


async def run(ground: Ground, results: Results, full: bool) -> None:
    live, archived = (1_000_000, 5_000_000) if full else (100_000, 100_000)
    async with ground.database() as url, connected(url) as connection:
        await connection.execute("alter table holdfast.inbox set (autovacuum_enabled = off)")
        await connection.execute(_KINDS)
        for start in range(1, live + 1, CHUNK):
            say(f"{start:,} of {live:,} live")
            await connection.execute(_LIVE, start, min(start + CHUNK, live + 1) - 1, timeout=300)
        await connection.execute(_WAITING, timeout=600)
        await connection.execute(_STEPS, timeout=600)
        await connection.execute(_EVENTS, live // 5, timeout=600)
        await fill_archive(connection, archived)
        await connection.execute(_MINUTES, 24 * 60, timeout=300)
        await connection.execute("vacuum analyze holdfast.inbox", timeout=600)
        await connection.execute("analyze")
        rows = f"{live:,} live, {archived:,} archived"
        await _measure(url, results, f"{rows}, vacuumed", "vacuumed")
        await _look(url, connection, results, f"{rows}, vacuumed", "vacuumed")
        await connection.execute("update holdfast.inbox set last_error = last_error", timeout=600)
        await _measure(url, results, f"{rows}, churned", "churned")
        await _look(url, connection, results, f"{rows}, churned", "churned")
    _render(results)


async def _measure(url: str, results: Results, rows: str, case: str) -> None:
    database = Database(url)
    link, chores = Link(database, "bench", planner=False), Link(database, "bench chores")
    try:
        await _chore(chores)
        questions: dict[str, tuple[Ask, float]] = {
            "the chore `gauges`": (lambda: _chore(chores), 150),
            "measure without a worker": (lambda: link.fetch("select count(*) from holdfast.measure()"), 200),
            "current numbers": (lambda: numbers.current(link), 200),
            "an hour by the minute": (lambda: numbers.history(link, 60), 200),
            "an hour by queue and kind": (lambda: numbers.history(link, 60, by="kind", step=3600), 200),
            "a day in steps of ten minutes": (lambda: numbers.history(link, 60 * 24), 200),
            "scrape of the installation": (lambda: _scrape(link), 100),
            "claim ages": (lambda: link.run("views", "claim_ages"), 200),
            "jobs that no worker can run": (lambda: link.run("views", "unclaimable_lately", 500), 200),
            "chores": (lambda: link.run("views", "chores", 10_000), 200),
            "dead letters": (lambda: link.run("views", "dead", None, None, None, None, 50, None), 200),
        }  # fmt: skip
        for name, (ask, most) in questions.items():
            say(f"{case}: {name}")
            await _chore(chores)  # so that the stored gauges are believed
            results.add("operate", f"{name}; {rows}", "ms", await _timed(ask), at_most(most), case=f"{case}.{name}")
    finally:
        await link.close()
        await chores.close()


async def _look(url: str, connection: asyncpg.Connection, results: Results, rows: str, case: str) -> None:
    """Ask for every page of the dashboard, as the browser does."""
    app = Holdfast(url)
    dashboard = app.dashboard(auth=lambda request: "bench")
    chores = Link(Database(url), "bench chores")
    try:
        for name, path in (await _paths(connection)).items():
            say(f"{case}: {path}")
            await _chore(chores)
            took = await _timed(lambda path=path: _answer(dashboard, path))  # type: ignore[misc]
            results.add("operate", f"dashboard: {name}; {rows}", "ms", took, at_most(200), case=f"{case}.page.{name}")
    finally:
        await dashboard.close()
        await app.close()
        await chores.close()


async def _paths(connection: asyncpg.Connection) -> dict[str, str]:
    """Each page, and each filter that matches little or nothing."""
    job = await connection.fetchval("select id from holdfast.inbox where status = 'pending' order by id limit 1")
    dead = await connection.fetchval("select id from holdfast.inbox where status = 'dead_letter' order by id limit 1")
    ended = await connection.fetchval("select id from holdfast.archive order by id limit 1")
    event = await connection.fetchval("select id from holdfast.events order by id limit 1")
    endpoint = await connection.fetchval("select id from holdfast.endpoints limit 1")
    instance = await connection.fetchval("select job_id from holdfast.instances order by job_id limit 1")
    middle = await connection.fetchval("select id from holdfast.inbox tablesample system (0.1) limit 1")
    return {
        "graphs of an hour": "/api/history?minutes=60",
        "graphs of a day": "/api/history?minutes=1440",
        "graphs of a queue": "/api/history?minutes=60&queue=queue%201",
        "queues": "/api/queues",
        "jobs": "/api/jobs",
        "jobs, a further page": f"/api/jobs?before={middle}",
        "jobs of a queue": "/api/jobs?queue=queue%203",
        "jobs that match nothing": "/api/jobs?kind=nobody",
        "jobs with a text": "/api/jobs?text=nowhere",
        "jobs that run": "/api/jobs?status=processing",
        "ended jobs": "/api/jobs?status=ended",
        "ended jobs that match nothing": "/api/jobs?status=failed",
        "ended jobs with a text": "/api/jobs?status=ended&text=nowhere",
        "a live job": f"/api/jobs/{job}",
        "a dead letter": f"/api/jobs/{dead}",
        "an ended job": f"/api/jobs/{ended}",
        "search for a word": "/api/search?q=key%201",
        "search for an id": f"/api/search?q={ended}",
        "dead letters": "/api/dead",
        "dead letters that match nothing": "/api/dead?text=nowhere",
        "dead letters of a group": "/api/dead?group=group%201",
        "groups of dead letters": "/api/dead/groups",
        "preview of a bulk action": "/api/dead/preview",
        "preview for a group": "/api/dead/preview?group=group%201&text=nowhere",
        "workers": "/api/workers",
        "schedules": "/api/schedules",
        "hot keys": "/api/keys",
        "outbox": "/api/outbox",
        "events that match nothing": "/api/outbox?type=nobody",
        "an event": f"/api/outbox/events/{event}",
        "an endpoint": f"/api/outbox/endpoints/{endpoint}",
        "workflows": "/api/workflows",
        "workflows, a further page": f"/api/workflows?before={middle}",
        "workflows that match nothing": "/api/workflows?state=paused",
        "an instance": f"/api/workflows/{instance}",
        "incidents": "/api/incidents",
        "doctor": "/api/doctor",
        "metrics": "/metrics",
    }


async def _answer(dashboard: Dashboard, path: str) -> None:
    """Ask for it without a socket."""
    scope = {
        "type": "http", "method": "GET", "path": unquote(path.partition("?")[0]), "root_path": "", "scheme": "http",
        "query_string": path.partition("?")[2].encode(), "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    found = 0
    body = b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal found, body
        found = message.get("status", found)
        body += message.get("body", b"")

    await dashboard(scope, receive, send)
    if found != 200:
        raise RuntimeError(f"{path} was answered with {found}: {body.decode()}")


async def _timed(ask: Ask) -> list[float]:
    """Milliseconds of each turn; the first, with cold caches, counts too."""
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - began) * 1000)
    return took


async def _chore(link: Link) -> list[asyncpg.Record]:
    return await link.run("housekeeping", "gauges")


async def _scrape(link: Link) -> bytes:
    return installation_page(await numbers.gauges(link))


def _render(results: Results) -> None:
    """The page of a worker with as many queues and kinds as it counts apart."""
    run = Histogram.of([2.0**n for n in range(-10, 10)])
    totals = {("queue", f"kind {n}"): Attempts(started=n, completed=n, run=run, pickup=run) for n in range(256)}
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        worker_page(totals)
        took.append((time.perf_counter() - began) * 1000)
    results.add("operate", "the page of a worker with 256 kinds", "ms", took, at_most(100), case="page")
