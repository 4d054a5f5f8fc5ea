"""The pages of `holdfast worker --metrics`: what was counted here, the installation's gauges, and two probes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus

from ...db.database import Database
from ...db.link import Link
from ...metrics import endpoint
from ...metrics.endpoint import Page
from ...metrics.families import installation_page, worker_page
from ...metrics.text import CONTENT_TYPE
from ...views import numbers
from .books import Books

ASK_WITHIN = 3.0
"""Seconds for the server to answer a scrape or a probe."""


class Exporter:
    """Serves the pages, on the keeper's loop."""

    def __init__(
        self, listening: socket.socket, books: Books, database: Database, unready: Callable[[], Sequence[str]]
    ) -> None:
        self._listening = listening
        self._books = books
        self._unready = unready
        """Why this worker cannot run jobs now; empty: it can."""
        self._link = Link(database, "metrics", planner=False, deadline=ASK_WITHIN)

    async def run(self) -> None:
        """Serve until cancelled."""
        pages = {
            "/metrics": self._metrics,
            "/metrics/installation": self._installation,
            "/healthz": self._alive,
            "/readyz": self._ready,
        }
        try:
            await endpoint.serve(self._listening, pages)
        finally:
            self._link.drop()

    async def _metrics(self) -> Page:
        return Page(worker_page(self._books.totals(), self._books.lost), content_type=CONTENT_TYPE)

    async def _installation(self) -> Page:
        return Page(installation_page(await numbers.gauges(self._link)), content_type=CONTENT_TYPE)

    async def _alive(self) -> Page:
        return Page(b"alive\n")

    async def _ready(self) -> Page:
        problems = list(self._unready())
        if not problems:
            try:
                async with asyncio.timeout(ASK_WITHIN):
                    await self._link.fetch("select 1")
            except Exception as error:
                problems.append(f"the server does not answer: {type(error).__name__}")
        if problems:
            return Page(("\n".join(problems) + "\n").encode(), HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(b"ready\n")
