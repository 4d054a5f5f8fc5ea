"""The page in a real browser, opened as a file. Screenshots are in build/screenshots."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect
from tests.support.browser import Chromium, shot

from holdfast.simulations import page as made_page
from holdfast.simulations.inlining import bundle

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["receipt", "crash", "contention", "ring", "tuner"]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(made_page(), encoding="utf-8")
    return file.as_uri()


def panel(page: Page) -> Locator:
    return page.locator(".panel:not([hidden])")


async def press(page: Page, name: str, times: int = 1) -> None:
    button = panel(page).get_by_role("button", name=name, exact=True)
    for _ in range(times):
        await button.click()


async def step_to_the_end(page: Page) -> None:
    """Many clicks, made in the page: each by itself would be a round trip."""
    await (
        panel(page)
        .get_by_role("button", name="Step", exact=True)
        .evaluate("button => { for (let n = 0; n < 1000 && !button.disabled; n++) button.click(); }")
    )
    await expect(panel(page).get_by_role("button", name="Step", exact=True)).to_be_disabled()


async def tile(page: Page, name: str) -> str:
    return await panel(page).locator(".tile", has_text=name).locator("strong").inner_text()


async def column(page: Page, name: str) -> str:
    return await panel(page).locator("table.row tr", has_text=name).locator("td").inner_text()


async def lines(page: Page) -> int:
    return await panel(page).locator(".log li").count()


def test_a_receipt_steps_plays_and_resets(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        assert await lines(page) == 0
        await press(page, "Step")
        assert (await column(page, "status"), await column(page, "lease_generation")) == ("pending", "0")
        await press(page, "Step")
        assert (await column(page, "status"), await column(page, "claimed_by")) == ("processing", "worker 1")
        assert await page.locator("tr.changed").count() == 5
        await panel(page).get_by_label("Speed").select_option("fast")
        await press(page, "Play")
        await expect(page.locator(".state.completed.current")).to_be_visible()  # it plays to the end by itself
        await expect(panel(page).get_by_role("button", name="Play")).to_be_visible()
        assert (await tile(page, "Mails sent"), await column(page, "attempts")) == ("1", "3 of 3")
        await press(page, "Reset")
        assert (await lines(page), await tile(page, "Mails sent")) == (0, "0")
        await page.get_by_label("The mail server").select_option("never works")
        await step_to_the_end(page)
        assert await column(page, "status") == "dead_letter"
        await press(page, "Revive it")
        await step_to_the_end(page)
        assert (await column(page, "status"), await tile(page, "Mails sent")) == ("completed", "1")

    chromium.visit(f"{address}#receipt", story)


def test_pause_keeps_what_there_is(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        await press(page, "Play")
        await panel(page).locator(".log li").nth(3).wait_for()
        await press(page, "Pause")
        before = await lines(page)
        await page.wait_for_timeout(1000)  # more than two steps would take
        assert await lines(page) == before
        await press(page, "Step")
        assert await lines(page) == before + 1

    chromium.visit(f"{address}#contention", story)


def test_a_crash_with_and_without_the_marker(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        await step_to_the_end(page)
        assert (await tile(page, "Mails sent"), await tile(page, "Marker")) == ("1", "stored")
        await page.get_by_label("The handler keeps a marker").uncheck()
        await step_to_the_end(page)
        assert (await tile(page, "Mails sent"), await tile(page, "Marker")) == ("2", "off")
        await page.get_by_label("Worker 1 is").select_option("frozen, and wakes up too late")
        await step_to_the_end(page)
        assert await tile(page, "Stale writes refused") == "1"
        assert await column(page, "lease_generation") == "2"

    chromium.visit(f"{address}#crash", story)


def test_contention_with_and_without_the_guard(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        await step_to_the_end(page)
        told = [await tile(page, name) for name in ("Completed", "Run twice", "Out of order")]
        assert told == ["36 of 36", "0", "0"]
        await page.get_by_label("Guard:").uncheck()
        await step_to_the_end(page)
        assert await tile(page, "Completed") == "36 of 36"
        assert int(await tile(page, "Run twice")) > 0
        await page.get_by_label("Guard:").check()
        await page.get_by_label("Order:").uncheck()
        await step_to_the_end(page)
        assert await tile(page, "Run twice") == "0"
        assert int(await tile(page, "Out of order")) > 0

    chromium.visit(f"{address}#contention", story)


def test_the_ring(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        await press(page, "Add a worker")
        ring, modulo = [int((await tile(page, f"Moved by {name}")).split()[0]) for name in ("the ring", "modulo")]
        assert 30 < ring < 120 < 180 < modulo <= 300
        await press(page, "Step", 6)
        assert [await tile(page, name) for name in ("Keys without", "Keys with two")] == ["0", "0"]
        await press(page, "Kill one")
        assert int(await tile(page, "Keys without")) > 0
        await expect(page.get_by_text("unnoticed")).to_be_visible()
        await press(page, "Step", 36)
        assert await tile(page, "Keys without") == "0"
        await press(page, "Drain one")
        await press(page, "Step", 6)
        assert await tile(page, "Keys without") == "0"
        await press(page, "Reset")
        await expect(panel(page).locator("tbody tr")).to_have_count(3)

    chromium.visit(f"{address}#ring", story)


def test_the_tuner(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        verdict = page.locator(".verdict")
        await expect(verdict).to_contain_text("keeps up with 300")
        await page.get_by_label("Jobs that come in").press("End")
        await expect(verdict).to_contain_text("falls behind: 100,000")
        await expect(verdict).to_contain_text("all hands are busy")
        await press(page, "Step", 3)
        assert int((await tile(page, "Waiting")).replace(",", "")) > 100_000
        await page.get_by_label("A handler waits for").press("Home")
        await page.get_by_label("Jobs at a time").press("End")
        await expect(verdict).to_contain_text("one event loop")
        await press(page, "Reset")
        assert await tile(page, "Waiting") == "0"
        assert await page.get_by_label("Jobs at a time").get_attribute("aria-valuetext") == "200"

    chromium.visit(f"{address}#tuner", story)


def test_the_keyboard_is_enough(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        await page.get_by_role("tab", name="One worker").focus()
        await page.keyboard.press("ArrowRight")
        assert await page.get_by_role("tab", selected=True).inner_text() == "Crash and dedupe"
        assert page.url.endswith("#crash")
        await page.keyboard.press("Tab")
        await page.keyboard.press("s")
        await page.keyboard.press("s")
        assert await lines(page) == 2
        await page.keyboard.press("r")
        assert await lines(page) == 0

    chromium.visit(address, story)


def test_another_seed_is_another_run(chromium: Chromium, address: str) -> None:
    async def story(page: Page) -> None:
        told = []
        for seed in ("1", "2", "1"):
            await panel(page).get_by_label("Seed").fill(seed)
            await press(page, "Reset")
            await press(page, "Step", 8)
            told.append(await panel(page).locator(".log").inner_text())
        assert told[0] == told[2] != told[1]

    chromium.visit(f"{address}#contention", story)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")])
def test_it_fits_and_everything_has_a_name(chromium: Chromium, address: str, width: int, scheme: str) -> None:
    axe = (ROOT / "tests" / "dashboard" / "vendor" / "axe.min.js").read_text(encoding="utf-8")

    async def story(page: Page) -> None:
        await page.evaluate(axe)
        for number, name in enumerate(NAMES):
            await page.get_by_role("tab").nth(number).click()
            await press(page, "Step", 4)
            await shot(page, f"simulations-{name}-{width}-{scheme}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, name
            answer = await page.evaluate("axe.run({ resultTypes: ['violations'] })")
            told = [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in answer["violations"]]
            assert told == [], name

    chromium.visit(address, story, viewport={"width": width, "height": 900}, color_scheme=scheme)


def test_nothing_in_it_comes_from_elsewhere() -> None:
    text = made_page()
    assert "default-src 'none'" in text
    assert re.findall(r"(?:src|href)=|url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", text) == []
    addresses = set(re.findall(r"https?://[^\"' ]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a name space; nothing is fetched from there"


def test_a_module_that_the_page_cannot_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.simulations.inlining.STATIC", tmp_path)
    (tmp_path / "one.js").write_text('import { two } from "./two.js";\nexport const one = two;\n')
    (tmp_path / "two.js").write_text("export const two = 2;\n")
    assert "const { one } = module_one;" in bundle("one.js")
    (tmp_path / "two.js").write_text("export default 2;\n")
    with pytest.raises(ValueError, match=r"two\.js: a form of import or export"):
        bundle("one.js")
    (tmp_path / "two.js").write_text('import { one } from "./one.js";\nexport const two = one;\n')
    with pytest.raises(ValueError, match=r"in a circle: one\.js → two\.js → one\.js"):
        bundle("one.js")
