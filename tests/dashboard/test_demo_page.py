"""Only a demo's dashboard has the page of the demo."""

from playwright.async_api import Page, expect
from tests.dashboard.serving import Visitor, dashboard
from tests.support.browser import Chromium
from tests.support.workers import Inbox


def test_others_have_neither_its_page_nor_its_routes(chromium: Chromium, inbox: Inbox) -> None:
    async def story(page: Page) -> None:
        await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
        await expect(page.get_by_role("link", name="Demo", exact=True)).to_have_count(0)

    with dashboard(inbox.url) as address:
        visitor = Visitor(address).enter()
        assert visitor.ask("/api/session").json["demo"] is False
        assert visitor.ask("/api/demo").status == 404
        for verb in ("kill", "add", "drain", "pin", "release"):
            assert visitor.ask(f"/api/demo/{verb}", {}).status == 404
        chromium.visit(f"{address}/#/demo", story)
