"""What the pages read: with a role that only reads, of many rows, hidden values, and one poller for all viewers."""

import asyncio
import hashlib
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.dashboard.filling import SECRET, bury, fill
from tests.dashboard.serving import TOKEN, Visitor, dashboard
from tests.support.pooler import database_at
from tests.support.stopwatch import Stopwatch
from tests.support.workers import Inbox

from holdfast.dashboard.live import LARGEST, Live, fitting
from holdfast.dashboard.masking import HIDDEN, masked
from holdfast.dashboard.reading import Reading
from holdfast.errors import Unreachable

READS = (
    "/queues", "/jobs", "/jobs?status=ended", "/jobs?status=processing", "/jobs?status=retrying&queue=mail", "/dead",
    "/jobs?text=order", "/dead/groups", "/dead/preview", "/dead?group=g1", "/workers", "/schedules", "/keys", "/outbox",
    "/workflows", "/workflows?state=waiting&workflow=checkout", "/history?minutes=60", "/incidents",
    "/search?q=abc", "/doctor",
)  # fmt: skip
VENDORED = {
    "preact.mjs": "dd1824875a0115b19c928351d0cdba0d",
    "hooks.mjs": "69517af5a691418711b6dec9e751bbb4",
    "htm.mjs": "93bfcfcb1717390ff37c9ab5bf44ccfc",
    "uplot.mjs": "8947419443b9a9cd3bfa03b3fb7aeafc",
    "uplot.css": "21f57407b308398b8ef7990ef46e7248",
}
SLOW = 5.0
"""Seconds that nothing here comes near, on any machine."""


@pytest.mark.direct
def test_a_role_that_only_reads(inbox: Inbox) -> None:
    """The grants of docs/dashboard.md are enough for every page, and for nothing else."""
    fill(inbox)
    role = f"viewer_{time.time_ns()}"
    page = (Path(__file__).resolve().parents[2] / "docs" / "dashboard.md").read_text()
    grants = page.partition("create role viewer login password '…';")[2].partition("```")[0].replace("viewer", role)
    inbox.rows(f"create role {role} login password 'look'")
    try:
        for statement in grants.split(";")[:-1]:
            inbox.rows(statement)
        place = urlsplit(inbox.url)
        own = urlunsplit(place._replace(netloc=f"{role}:look@{place.hostname}:{place.port}"))
        with dashboard(own, read_only=True) as address:
            visitor = Visitor(address)
            answers = {path: visitor.ask(f"/api{path}") for path in READS}
            id = inbox.one("select id from holdfast.inbox where status = 'dead_letter' limit 1")
            answers["a job"] = visitor.ask(f"/api/jobs/{id}")
        assert {path: (each.status, each.body[:200]) for path, each in answers.items() if each.status != 200} == {}
    finally:
        inbox.rows(f"drop owned by {role} cascade")
        inbox.rows(f"drop role {role}")


def test_nothing_is_written_on_its_connections(inbox: Inbox) -> None:
    async def story() -> None:
        reading = Reading(database_at(inbox.url))
        try:
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await reading.run("queues", "pause", "mail", "ann")
            many = [reading.run("views", "now") for _ in range(40)]
            assert len(await asyncio.gather(*many)) == 40
        finally:
            await reading.close()

    asyncio.run(story())


@pytest.mark.slow
def test_a_hundred_thousand_dead_letters(inbox: Inbox) -> None:
    """Pages, previews and groups read a bounded part of them."""
    bury(inbox, 100_000)
    inbox.rows("analyze holdfast.inbox")
    with dashboard(inbox.url) as address:
        visitor = Visitor(address)
        visitor.ask("/api/dead")
        watch = Stopwatch()
        _read_bounded_parts(visitor)
        watch.check(SLOW, "reading")


def _read_bounded_parts(visitor: Visitor) -> None:
    first = visitor.ask("/api/dead").json
    assert len(first["jobs"]) == 50
    further = "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in first["further"].items())
    second = visitor.ask(f"/api/dead?{further}").json
    assert len({job["id"] for job in first["jobs"] + second["jobs"]}) == 100
    nothing = visitor.ask("/api/dead?text=nobody+wrote+this").json
    assert nothing["jobs"] == [] and nothing["further"] is not None, "it looked at a part, and says where it stopped"
    preview = visitor.ask("/api/dead/preview?group=g1").json
    assert preview["jobs"] == 10_000 and preview["more"] and preview["typed"] == "all"
    assert visitor.ask("/api/dead/groups").json["groups"][0]["more"]


def test_bulk_actions_take_what_the_preview_showed(inbox: Inbox) -> None:
    bury(inbox, 120)
    with dashboard(inbox.url) as address:
        page = Visitor(address).enter()
        preview = page.ask("/api/dead/preview?group=g1").json
        assert (preview["jobs"], preview["typed"], len(preview["samples"])) == (120, "120", 5)
        order = {"verb": "discard", "group": "g1", "until": preview["until"], "expected": 120, "typed": "120"}
        for wrong in (
            {"typed": "12"},
            {"typed": None},
            {"verb": "drop"},
            {"expected": "120"},
            {"expected": 5, "typed": None},
        ):
            assert page.ask("/api/dead/bulk", {**order, **wrong}).status == 400, wrong
        bury(inbox, 1)  # dies later than the preview
        inbox.rows(
            "update holdfast.inbox set dead_at = now() + interval '1 minute' where id in"
            " (select id from holdfast.inbox where status = 'dead_letter' order by seq desc limit 1)"
        )
        assert page.ask("/api/dead/bulk", order).json["done"] == 120
    assert inbox.one("select count(*) from holdfast.inbox where status = 'dead_letter'") == 1


def test_named_fields_are_hidden_at_any_depth(inbox: Inbox) -> None:
    names = frozenset({"token", "api_key"})
    deep = {"a": [{"Token": 1, "b": {"API-Key": "x", "tokens": 2}}, [{"token": None}]], "token": {"c": 1}}
    assert masked(deep, names) == {
        "a": [{"Token": HIDDEN, "b": {"API-Key": HIDDEN, "tokens": 2}}, [{"token": None}]],
        "token": HIDDEN,
    }
    bottomless: object = 1
    for _ in range(500):
        bottomless = [bottomless]
    assert HIDDEN in str(masked(bottomless, names))
    bury(inbox, 1)
    with dashboard(inbox.url) as address:
        visitor = Visitor(address)
        assert len(visitor.ask("/api/jobs?text=card").json["jobs"]) == 1
        assert visitor.ask(f"/api/jobs?text={SECRET}").json["jobs"] == [], "a search must not tell what is hidden"
    with dashboard(inbox.url, mask=[]) as address:
        assert len(Visitor(address).ask(f"/api/jobs?text={SECRET}").json["jobs"]) == 1


async def test_one_poller_for_all_viewers() -> None:
    looks = 0

    async def look() -> dict[str, object]:
        nonlocal looks
        looks += 1
        return {"n": looks}

    live = Live(look, "holdfast", every=0.01)
    streams = [live.stream() for _ in range(20)]
    for _ in range(3):
        await asyncio.gather(*(anext(stream) for stream in streams))
    assert looks < 20, "they do not ask each for themselves"
    for stream in streams:
        await stream.aclose()
    await asyncio.sleep(0.1)
    asleep = looks
    await asyncio.sleep(0.2)
    assert looks == asleep, "nobody looks, so nobody asks"
    assert (await anext(live.stream())).startswith(b"data: ")
    await live.close()


def test_metrics(inbox: Inbox) -> None:
    inbox.rows("select holdfast.enqueue('send', '{}', queue => 'mail')")
    with dashboard(inbox.url, token=TOKEN) as address:
        visitor = Visitor(address)
        assert visitor.ask("/metrics").status == 401
        page = visitor.ask("/metrics", authorization=f"Bearer {TOKEN}")
    assert page.headers["content-type"].startswith("text/plain; version=")
    assert b'holdfast_jobs{queue="mail",state="pending"} 1' in page.body


def test_a_state_is_small() -> None:
    queues = [[f"queue-{n:040}", n, 0, 0, 1.5, False] for n in range(1000)]
    text = fitting({"now": "x", "queues": queues})
    assert len(text) <= LARGEST
    assert b'"more":' in text and b"queue-0000" in text


def test_vendored_files_are_those_that_were_reviewed() -> None:
    import holdfast.dashboard

    folder = Path(str(holdfast.dashboard.__file__)).parent / "static" / "vendor"
    digests = {name: hashlib.sha384((folder / name).read_bytes()).hexdigest()[:32] for name in VENDORED}
    assert digests == VENDORED
    licensed = {path.name for path in folder.glob("LICENSE-*")}
    assert licensed == {"LICENSE-preact.txt", "LICENSE-htm.txt", "LICENSE-uplot.txt"}


def test_a_worker_does_not_import_it() -> None:
    modules = ("cli.worker", "cli.stats", "processes.supervisor", "processes.worker_process")
    imports = "; ".join(["import sys, holdfast", *(f"import holdfast.{name}" for name in modules)])
    program = f"{imports}; print({{'starlette', 'uvicorn', 'holdfast.dashboard'}} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


async def test_what_was_closed_is_not_opened_again(inbox: Inbox) -> None:
    """By a viewer whose request was on its way."""
    reading = Reading(database_at(inbox.url))
    await reading.run("views", "now")
    await reading.close()
    with pytest.raises(Unreachable, match="ended"):
        await reading.run("views", "now")
