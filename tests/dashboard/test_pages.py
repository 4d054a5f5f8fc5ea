"""Every page, in a real browser: wide and on a phone, light and dark, for everybody; and it asks nobody else."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.dashboard.filling import SECRET, WORKERS
from tests.support.browser import Chromium, shot
from tests.support.workers import Inbox

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}}
PLACES = {
    "overview": ("#/", "All incidents"),
    "queues": ("#/queues", "images"),
    "jobs": ("#/jobs", "send_receipt"),
    "jobs-retrying": ("#/jobs?status=retrying&queue=mail", "Timeout: slow"),
    "dead": ("#/dead", "ConnectionError"),
    "workers": ("#/workers", WORKERS[2]),
    "workflows": ("#/workflows", "checkout:17"),
    "workflow": ("#/workflows/checkout%3A17", "reserve"),
    "outbox": ("#/outbox", "hooks.example"),
    "schedules": ("#/schedules", "Europe/Berlin"),
    "keys": ("#/keys", "account:7"),
    "incidents": ("#/incidents", "images"),
    "doctor": ("#/doctor", "horizon"),
    "simulations": ("#/simulations", "How it works"),
}


async def tour(page: Page, address: str, theme: str, id: str) -> None:
    """All pages, one after the other, as somebody who clicks through them."""
    await page.evaluate(AXE)
    for name, (place, words) in {**PLACES, "job": (f"#/jobs/{id}", "attempt 2 failed")}.items():
        await page.goto(f"{address}/{place}")
        await expect(page.locator("main")).to_contain_text(words)
        await expect(page.get_by_text("● live")).to_be_visible()
        width = (page.viewport_size or {"width": 0})["width"]
        wide = await page.evaluate("document.documentElement.scrollWidth")
        await shot(page, f"{name}-{theme}")
        assert wide <= width, f"{name} is {wide} pixels wide"
        await check_access(page, name)
    assert SECRET not in await page.content()


async def check_access(page: Page, name: str) -> None:
    """Nobody is left out: axe's rules, those of WCAG 2.2 AA among them."""
    # It would copy the style sheets of the simulations' tree into a style element, which the policy refuses.
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
    shown = [{"rule": each["id"], "at": [node["target"] for node in each["nodes"]][:5]} for each in found["violations"]]
    assert not shown, f"{name}: {json.dumps(shown)}"


def a_dead_letter(inbox: Inbox) -> str:
    return str(inbox.one("select id from holdfast.inbox where status = 'dead_letter' order by id limit 1"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_page(chromium: Chromium, address: str, filled: Inbox) -> None:
    id = a_dead_letter(filled)
    chromium.visit(address, lambda page: tour(page, address, "light", id), color_scheme="light")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_page_on_a_phone(chromium: Chromium, address: str, filled: Inbox) -> None:
    id = a_dead_letter(filled)
    chromium.visit(address, lambda page: tour(page, address, "phone-dark", id), color_scheme="dark", **PHONE)
