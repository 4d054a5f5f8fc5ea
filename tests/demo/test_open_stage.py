"""The stage after the results, in front of somebody: every button, over HTTP and in a real browser."""

import asyncio
import signal
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.async_api import Page, expect
from tests.dashboard.serving import Visitor
from tests.dashboard.test_pages import AXE, PHONE, check_access
from tests.demo.running import Terminal, left_behind, start, wait_for_words
from tests.support.browser import Chromium, shot
from tests.support.databases import Server
from tests.support.pooler import direct
from tests.support.processes import processes_mentioning
from tests.support.waiting import until, wait_until

from holdfast import Holdfast
from holdfast.db.acting import own_name

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(240)]


class Play:
    """What a visitor of the open stage sees, and what the database has."""

    def __init__(self, address: str, url: str) -> None:
        self.address, self.url = address, url
        self.visitor = Visitor(address).enter()
        ((self.schema,),) = self.rows("select nspname from pg_namespace where nspname like 'holdfast_demo_%'")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(direct(self.url), autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    def press(self, what: str, worker: str | None = None) -> str:
        answer = self.visitor.ask(f"/api/demo/{what}", {"worker": worker} if worker else {})
        assert answer.status == 200, answer.body
        return str(answer.json["done"])

    def see(self) -> dict[str, Any]:
        found: dict[str, Any] = self.visitor.ask("/api/demo").json
        return found

    def wait(self, fact: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def holds() -> bool:
            seen.update(self.see())
            return bool(fact(seen))

        wait_until(holds, 60)
        return seen

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.see()["workers"]}

    def noted(self, what: str) -> list[tuple[Any, ...]]:
        return self.rows(f"select subject, actor from {self.schema}.journal where what = '{what}'")


def running(seen: dict[str, Any]) -> int:
    return sum(each["state"] == "running" for each in seen["workers"])


@pytest.fixture(scope="module")
def play(postgres: Server) -> Iterator[Play]:
    """A demo whose results are told, and whose stage is open. Ctrl-C ends it, and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as folder, postgres.database() as url:
        Path(folder).chmod(0o755)
        terminal = Terminal(Path(folder), "--seconds", "1", HOLDFAST_DATABASE_URL=url)
        try:
            terminal.wait_for("The demo keeps running")
            assert "All guarantees held." in terminal.said
            shown = Play(terminal.address, url)
            shown.wait(lambda seen: seen["open"] and running(seen) == 3)
            yield shown
            with urllib.request.urlopen(f"{terminal.address}/api/live", timeout=60) as watched:  # somebody still looks
                assert watched.readline().startswith(b"data: ")
                terminal.process.send_signal(signal.SIGINT)
                assert terminal.process.wait(60) == 0, terminal.said
            terminal.wait_for("The demo has removed everything")
            assert "Traceback" not in terminal.said and "Cancel" not in terminal.said
            assert left_behind(terminal.process, Path(folder)) == []
            assert shown.rows("select nspname from pg_namespace where nspname like 'holdfast_demo_%'") == []
        finally:
            with suppress(ProcessLookupError):
                terminal.process.kill()
            terminal.process.wait(10)
            terminal.close()


def gone(pid: int) -> bool:
    """Has it ended? Nobody may have asked for its exit code yet."""
    return not any(found == pid and argv != [""] for found, argv in processes_mentioning(""))


def a_killed_worker_comes_back_and_others_run_its_jobs(play: Play) -> None:
    for _ in range(10):  # on a busy machine, it may be killed while it holds nothing
        before = play.wait(lambda seen: running(seen) == 3)
        (pid,) = [each["pid"] for each in before["workers"] if each["name"] == "worker 2"]
        assert "worker 2 was killed" in play.press("kill", "worker 2")
        wait_until(partial(gone, pid))
        if any("killed worker 2 while it ran" in event for event in play.see()["events"]):
            break
    after = play.wait(lambda seen: seen["recovered"] > before["recovered"] and running(seen) == 3)
    assert after["kills"] > before["kills"]
    play.wait(lambda seen: any("s after the kill" in event for event in seen["events"]))
    assert ("worker 2", own_name()) in play.noted("demo.killed")
    play.wait(lambda seen: any(f"{own_name()} killed worker 2" in each["text"] for each in seen["lines"]))


def add_one_and_drain_it(play: Play) -> None:
    play.press("add")
    seen = play.wait(lambda seen: running(seen) == 4)
    (pid,) = [each["pid"] for each in seen["workers"] if each["name"] == "worker 4"]
    play.press("drain", "worker 4")
    play.wait(lambda seen: seen["workers"][3]["state"] == "drained")
    wait_until(partial(gone, pid))
    assert play.noted("demo.added") == play.noted("demo.drained") == [("worker 4", own_name())]
    refused = play.visitor.ask("/api/demo/kill", {"worker": "worker 4"})
    assert (refused.status, refused.json["problem"]) == (409, "worker 4 is not running; it is drained")


def drained_on_the_page_of_workers_the_demo_goes_on(play: Play) -> None:
    (name,) = play.rows(
        f"select id from {play.schema}.workers where status = 'alive'"
        f" and (metadata ->> 'pid')::int = {play.see()['workers'][0]['pid']}"
    )[0]
    assert play.visitor.ask("/api/workers/drain", {"worker": name}).status == 200
    play.wait(lambda seen: seen["workers"][0]["state"] == "drained")
    play.press("add")  # the drained one again
    play.wait(lambda seen: running(seen) == 3 and seen["workers"][0]["state"] == "running")


def a_paused_queue_waits(play: Play) -> None:
    assert play.visitor.ask("/api/queues/default/pause", {}).status == 200
    play.wait(lambda seen: seen["queues"] == [{"queue": "default", "paused": True}] and seen["jobs"]["due"] > 20)
    assert play.visitor.ask("/api/queues/default/resume", {}).status == 200
    play.wait(lambda seen: not seen["queues"][0]["paused"] and seen["jobs"]["due"] < 20)


def horizon(play: Play) -> str:
    async def look() -> str:
        app = Holdfast(play.url, schema=play.schema)
        try:
            (found,) = [each for each in await app.doctor() if each.name == "horizon"]
            return found.sentence
        finally:
            await app.close()

    return asyncio.run(look())


FORGOTTEN = "a forgotten transaction, idle in transaction"


def the_doctor_sees_who_pins_the_horizon(play: Play) -> None:
    play.press("pin")
    play.press("pin")  # again: it is the same
    seen = play.wait(lambda seen: seen["pin"] and seen["pin"]["xids"] > 10)
    # A job's transaction that was open before holds back as much, and for longer. It ends soon.
    wait_until(lambda: f"session {seen['pin']['pid']} (" in (found := horizon(play)) and FORGOTTEN in found)
    play.press("release")
    assert play.see()["pin"] is None
    assert "forgotten" not in horizon(play)
    assert len(play.noted("demo.pinned")) == len(play.noted("demo.released")) == 1


def only_its_own_page_may_press(play: Play) -> None:
    visitor = play.visitor
    before = play.see()["kills"]
    for wrong in ({"origin": "http://evil.example"}, {"x_holdfast_csrf": "guessed"}, {"content_type": "text/plain"}):
        assert visitor.ask("/api/demo/kill", {}, **wrong).status in (403, 415), wrong
    assert Visitor(play.address, visitor.own).ask("/api/demo/kill", {}).status == 403
    assert visitor.ask("/api/demo/kill", {"worker": "worker 99"}).status == 404
    assert visitor.ask("/api/demo/kill", {"worker": 1}).status == 400
    assert play.see()["kills"] == before


async def press_all(play: Play, page: Page) -> None:
    kills = play.see()["kills"]
    main = page.locator("main")
    await expect(page.get_by_text("● live")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await expect(page.get_by_role("heading", name="Demo", exact=True)).to_be_visible()
    rows = page.get_by_role("region", name="Workers").locator("tbody tr")
    await page.get_by_role("button", name="Add a worker").click()
    await expect(rows.filter(has_text="worker 4")).to_contain_text("running")
    await page.get_by_role("button", name="Kill worker 2").click()
    await expect(page.get_by_text("worker 2 was killed (SIGKILL)")).to_be_visible()
    await expect(page.get_by_role("region", name="The recovery")).to_contain_text("killed worker 2")
    await expect(rows.filter(has_text="worker 2")).to_contain_text("running")
    await page.get_by_role("button", name="Pin the xmin horizon").click()
    await expect(main).to_contain_text("vacuum removes none that is younger")
    await page.get_by_role("button", name="Pause queue default").click()
    await expect(main).to_contain_text("Queue default is paused")
    await page.evaluate(AXE)
    await check_access(page, "demo")
    await shot(page, "demo-light")
    await page.get_by_role("button", name="Resume queue default").click()
    await expect(page.get_by_role("button", name="Pause queue default")).to_be_visible()
    await page.get_by_role("button", name="Release the xmin horizon").click()
    await expect(page.get_by_role("button", name="Pin the xmin horizon")).to_be_visible()
    await page.get_by_role("button", name="Kill a worker").focus()
    await page.keyboard.press("Enter")
    await until(lambda: play.see()["kills"] == kills + 2)
    await page.get_by_role("button", name="Drain a worker").click()
    await expect(rows.filter(has_text="drained")).to_have_count(1)


STEPS = (
    only_its_own_page_may_press,
    a_killed_worker_comes_back_and_others_run_its_jobs,
    add_one_and_drain_it,
    drained_on_the_page_of_workers_the_demo_goes_on,
    a_paused_queue_waits,
    the_doctor_sees_who_pins_the_horizon,
)


def test_every_button_has_its_effect(play: Play) -> None:
    """One test: each process that runs tests would start a demo of its own."""
    for step in STEPS:
        step(play)


def test_the_page_in_a_browser(chromium: Chromium, play: Play) -> None:
    async def on_a_phone(page: Page) -> None:
        await expect(page.get_by_role("button", name="Kill worker").first).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]
        await page.evaluate(AXE)
        await check_access(page, "demo")
        await shot(page, "demo-phone-dark")

    chromium.visit(f"{play.address}/#/", partial(press_all, play), color_scheme="light")
    chromium.visit(f"{play.address}/#/demo", on_a_phone, color_scheme="dark", **PHONE)


def test_whatever_was_pressed_the_results_are_true(database_url: str, tmp_path: Path) -> None:
    """Nothing runs any more when the orders stop: the demo undoes that, and counts."""
    # Long enough to press everything on a busy machine: when the orders stop, the buttons are refused.
    with start(tmp_path, "--seconds", "20", HOLDFAST_DATABASE_URL=database_url) as process:
        (told,) = [line for line in wait_for_words(process, "orders come in") if "dashboard" in line]
        play = Play(told.partition("dashboard ")[2].partition("/#")[0], database_url)
        play.wait(lambda seen: seen["open"])
        # While all three run: a killed one needs a while to start again. The demo may just kill the same one.
        for button in ("kill", "drain", "drain"):
            wait_until(lambda button=button: play.visitor.ask(f"/api/demo/{button}", {}).status == 200)  # type: ignore[misc]
        play.press("pin")
        assert play.visitor.ask("/api/queues/default/pause", {}).status == 200
        play.wait(lambda seen: seen["jobs"]["due"] > 3)
        (job, *_) = play.visitor.ask("/api/jobs?status=pending").json["jobs"]
        assert play.visitor.ask(f"/api/jobs/{job['id']}/cancel", {}).status == 200
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), out
    assert "All guarantees held." in out
    assert "1 that was cancelled or discarded by hand is not counted" in " ".join(out.split())
