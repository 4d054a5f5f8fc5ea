"""What people do on the pages reaches the installation, and what happens there reaches the pages."""

import asyncio

from playwright.async_api import Page, expect
from tests.dashboard.filling import HOSTILE, SECRET, bury, fill
from tests.dashboard.serving import TOKEN, dashboard
from tests.support.browser import Chromium, shot
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import until
from tests.support.workers import Inbox

from holdfast import Holdfast

SOON = 20.0
"""Seconds: a change is seen within about one, on a machine that has time."""


def test_pause_resume_and_live_updates(chromium: Chromium, inbox: Inbox) -> None:
    inbox.rows("select holdfast.enqueue('send', '{}', queue => 'mail')")

    async def story(page: Page) -> None:
        await page.get_by_role("button", name="Pause queue mail").click()
        await expect(page.locator("main")).to_contain_text("paused")
        await until(lambda: inbox.one("select paused_at is not null from holdfast.queues where name = 'mail'"))
        await page.get_by_role("button", name="Resume queue mail").click()
        await expect(page.get_by_role("button", name="Pause queue mail")).to_be_visible()
        # Somebody else pauses it, and a job comes; the page has not been touched.
        inbox.rows("update holdfast.queues set paused_at = now() where name = 'mail'")
        watch = Stopwatch()
        await expect(page.get_by_role("button", name="Resume queue mail")).to_be_visible()
        watch.check(SOON, "an update")
        await page.goto(f"{page.url.partition('#')[0]}#/")
        needs = page.get_by_role("link", name="queue mail is paused")
        await expect(needs).to_be_visible()
        took = []
        for paused in (False, True) * 3:
            inbox.rows("update holdfast.queues set paused_at = case when %s then now() end where name = 'mail'", paused)
            watch = Stopwatch()
            await expect(needs).to_be_visible(visible=paused, timeout=SOON * 1000)
            took.append(watch.taken())
        assert max(taken.own for taken in took) < 1.0, "; ".join(map(str, took))

    with dashboard(inbox.url, user="ann@web-1") as address:
        chromium.visit(f"{address}/#/queues", story)
    noted = inbox.rows("select what, subject, actor from holdfast.journal where actor = 'ann@web-1' order by id")
    assert [(row["what"], row["subject"]) for row in noted] == [("queue.paused", "mail"), ("queue.resumed", "mail")]


def test_revive_some_and_all(chromium: Chromium, inbox: Inbox) -> None:
    bury(inbox, 150)
    bury(inbox, 3, kind="resize", error="MemoryError: too large", group="g2", queue="images")

    async def story(page: Page) -> None:
        await expect(page.get_by_role("list", name="Groups of alike errors")).to_contain_text("MemoryError")
        await page.get_by_role("link", name="MemoryError").click()
        boxes = page.get_by_role("checkbox")
        await expect(boxes).to_have_count(3)
        # By keys alone: down, down, select, revive.
        await page.locator("h1").focus()
        for key in ("j", "j", "x", "r"):
            await page.keyboard.press(key)
        await expect(page.get_by_text("1 of 1 revived")).to_be_visible()
        await expect(boxes).to_have_count(2)
        await page.get_by_role("link", name="ConnectionError").click()
        await expect(boxes).to_have_count(50)
        await page.get_by_role("button", name="Revive all that match").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Revive 150 dead letters?")
        await expect(dialog.get_by_role("button", name="Revive")).to_be_disabled()
        await shot(page, "dialog-light")
        await dialog.get_by_label("Type").fill("150")
        await dialog.get_by_role("button", name="Revive").click()
        await expect(page.get_by_text("✓ 150 revived.")).to_be_visible()  # not the progress: "0 of 150 revived."

    with dashboard(inbox.url, user="ann@web-1") as address:
        chromium.visit(f"{address}/#/dead", story, color_scheme="light")
    assert inbox.one("select count(*) from holdfast.inbox where status = 'dead_letter'") == 2
    noted = "select sum(count) from holdfast.journal where what = 'jobs.revived' and actor = 'ann@web-1'"
    assert inbox.one(noted) == 151


async def test_hostile_content_is_text(chromium: Chromium, inbox: Inbox, hf: Holdfast) -> None:
    """Nothing that came from outside is run or becomes an element, wherever it is shown."""
    fill(inbox, dead=0)
    bury(inbox, 3, kind=HOSTILE, error=f"Error: {HOSTILE}", queue=HOSTILE[:100])
    id = inbox.one("select id from holdfast.inbox where status = 'dead_letter' limit 1")
    inbox.rows(
        "update holdfast.inbox set payload = payload || jsonb_build_object('note', %s::text),"
        " headers = jsonb_build_object('x', %s::text) where id = %s",
        HOSTILE, HOSTILE, id,
    )  # fmt: skip

    async def story(page: Page) -> None:
        base = page.url.partition("#")[0]
        for place in ("#/", "#/queues", "#/jobs", "#/dead", f"#/jobs/{id}", "#/keys", "#/incidents"):
            await page.goto(f"{base}{place}")
            await expect(page.locator("h1")).to_be_visible()
        await page.goto(f"{base}#/jobs/{id}")
        await expect(page.get_by_role("region", name="Payload")).to_contain_text("onerror")
        assert await page.evaluate("window.hurt") is None
        assert await page.locator("main img, main script").count() == 0
        assert SECRET not in await page.content()

    def visit() -> None:
        with dashboard(inbox.url) as address:
            chromium.visit(address, story)

    await asyncio.to_thread(visit)


def test_login_and_logout(chromium: Chromium, inbox: Inbox) -> None:
    async def story(page: Page) -> None:
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()
        await shot(page, "login-light")
        await page.get_by_label("Token").fill("wrong" * 8)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_contain_text("not the token")
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_label("Your name").fill("ann")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_text("● live")).to_be_visible()
        assert TOKEN not in await page.content()
        (cookie,) = await page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("button", name="Log in")).to_be_visible()

    with dashboard(inbox.url, token=TOKEN) as address:
        chromium.visit(address, story, allowed=("status of 403", "status of 401"))
