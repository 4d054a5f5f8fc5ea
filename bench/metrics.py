"""Metrics: a drain with the numbers on, served and scraped once a second, in turns with one that counts nothing."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress

from .draining import drain
from .figures import Results, at_least, at_most, ratios
from .ground import Ground, connected, fill, settle
from .turns import turns


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 400_000 if full else 100_000
    rates: dict[str, list[float]] = {"on": [], "off": []}
    used: dict[str, list[float]] = {"on": [], "off": []}
    scrapes: list[float] = []
    for name in turns(10 if full else 11, rates):
        async with ground.database() as url, connected(url) as watch:
            await fill(watch, jobs)
            await settle(watch)
            if name == "on":
                port = _free_port()
                scraping = asyncio.create_task(_scrape(port, scrapes))
                drained = await drain(ground, url, watch, jobs, "-c", "20", "--metrics", f"127.0.0.1:{port}")
                scraping.cancel()
                await asyncio.gather(scraping, return_exceptions=True)
            else:
                drained = await drain(ground, url, watch, jobs, "-c", "20", app="bench.uncounted:hf")
        rates[name].append(drained.rate)
        used[name].append(drained.worker_cpu / jobs * 1e6)
    for name, values in rates.items():
        results.add("metrics", f"{jobs:,} no-op jobs, metrics {name}", "jobs/s", values, case=f"rate.{name}")
        results.add("metrics", f"CPU of supervisor + worker, {name}", "µs/job", used[name], case=f"cpu.{name}")
    results.add("metrics", "on ÷ off", "", ratios(rates["on"], rates["off"]), at_least(0.97), case="kept")
    cost = [with_it - without for with_it, without in zip(used["on"], used["off"], strict=True)]
    results.add("metrics", "CPU that it costs", "µs/job", cost, case="cost")
    if scrapes:
        results.add("metrics", "scrape of a busy worker", "ms", scrapes, at_most(100), case="scrape")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def _scrape(port: int, took: list[float]) -> None:
    while True:
        await asyncio.sleep(1)
        began = time.perf_counter()
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n")
            page = await reader.read()
            writer.close()
            if b"holdfast_attempts_started_total" in page:
                took.append((time.perf_counter() - began) * 1000)
