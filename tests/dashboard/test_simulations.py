"""The simulations inside the dashboard: under its policy, its theme and beside its keys."""

from playwright.async_api import Page, expect
from tests.dashboard.serving import dashboard
from tests.support.browser import Chromium, shot
from tests.support.workers import Inbox


def test_they_run_and_the_keys_do_not_mix(chromium: Chromium, inbox: Inbox) -> None:
    async def story(page: Page) -> None:
        await page.goto(f"{page.url.split('#')[0]}#/simulations")
        await expect(page.get_by_role("tab", selected=True)).to_have_text("One worker, one receipt")
        step = page.get_by_role("button", name="Step", exact=True).locator("visible=true")
        await step.click()
        await expect(page.locator("table.row tr", has_text="status").locator("td")).to_have_text("pending")
        await page.keyboard.press("s")
        await expect(page.locator("table.row tr", has_text="status").locator("td")).to_have_text("processing")
        await page.get_by_role("tab", name="The ring").click()
        await page.get_by_role("button", name="Add a worker").click()
        await expect(page.locator(".tile", has_text="Moved by the ring").locator("strong")).to_contain_text("of 300")
        seed = page.get_by_label("Seed").locator("visible=true")
        await seed.focus()
        await page.keyboard.press("/")  # the dashboard's search; not while somebody types
        await expect(seed).to_be_focused()
        await shot(page, "dashboard-simulations-ring")
        background = "getComputedStyle(document.querySelector('main div').shadowRoot.querySelector('.hf-sim'))"
        light = await page.evaluate(f"{background}.backgroundColor")
        await page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert await page.evaluate(f"{background}.backgroundColor") != light, "it follows the chosen theme"
        await page.goto(f"{page.url.split('#')[0]}#/queues")
        await expect(page.get_by_role("tab")).to_have_count(0)

    with dashboard(inbox.url, user="ann@web-1") as address:
        chromium.visit(address, story, color_scheme="light")
