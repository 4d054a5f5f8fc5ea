"""Chromium for tests: Debian's, driven by playwright, one for each process that runs tests.

It lives on an event loop in a thread of its own: playwright's objects belong to the loop that made them, and other
tests of this process have loops of theirs. Without Chromium its tests are skipped, and the reason names the package;
HOLDFAST_NO_SKIPS=1 forbids that.
"""

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

T = TypeVar("T")
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--no-first-run"]
PATIENCE = 40_000
"""Milliseconds that a page may take for what a test waits for."""


@dataclass
class Watched:
    """What a page did besides showing itself."""

    host: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Addresses of other hosts that it asked."""

    def hear(self, message: ConsoleMessage) -> None:
        # What tests evaluate has no address: in a shadow tree, axe tries styles, which the policy forbids.
        if message.type in ("error", "warning") and message.location["url"]:
            self.errors.append(f"{message.type}: {message.text} ({message.location['url']})")

    def asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self.host and not request.url.startswith(("data:", "blob:")):
            self.strangers.append(request.url)

    def check(self, *allowed: str) -> None:
        """Nothing was wrong but what a test expects."""
        assert not self.strangers, self.strangers
        left = [error for error in self.errors if not any(words in error for words in allowed)]
        assert not left, left


class Chromium:
    """The browser, for code that does not await."""

    def __init__(self) -> None:
        found = shutil.which("chromium")
        if found is None:
            pytest.skip("no chromium on PATH (Debian: apt install chromium)")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True)
        self._thread.start()
        self._driver: Any = None
        self._browser: Browser = self.run(self._start(found))

    def run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(390)

    async def _start(self, program: str) -> Browser:
        expect.set_options(PATIENCE)
        self._driver = await async_playwright().start()
        browser: Browser = await self._driver.chromium.launch(executable_path=program, args=FLAGS)
        return browser

    def visit(
        self,
        address: str,
        story: Callable[[Page], Awaitable[T]],
        *,
        allowed: tuple[str, ...] = (),
        **context: Any,
    ) -> T:
        """Open a page in a fresh profile and do what the story says; then nothing may have gone wrong in it."""

        async def whole() -> T:
            options = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "UTC", **context}
            opened = await self._browser.new_context(**options)
            opened.set_default_timeout(PATIENCE)
            try:
                page = await opened.new_page()
                watched = Watched(urlsplit(address).netloc)
                page.on("console", watched.hear)
                page.on("pageerror", lambda error: watched.errors.append(f"page error: {error}"))
                page.on("request", watched.asked)
                try:
                    await page.goto(address)
                    result = await story(page)
                except BaseException as error:
                    error.add_note(f"the page said: {watched.errors}")
                    raise
                watched.check(*allowed)
                return result
            finally:
                await opened.close()

        return self.run(whole())

    def close(self) -> None:
        async def end() -> None:
            await self._browser.close()
            await self._driver.stop()

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def shot(page: Page, name: str) -> None:
    """Write a picture of the whole page to build/screenshots."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser of this session."""
    browser = Chromium()
    yield browser
    browser.close()
