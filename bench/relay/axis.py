"""What is measured of the relay."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from holdfast import Holdfast
from holdfast.model.signature import new_secret

from ..figures import Results, at_least, at_most, percentile
from ..ground import Ground, connected, settle
from ..processes import check_workers, family, memory, worker
from .app import PLACE, TYPE
from .brokers import Destination, NotThere, started
from .cases import KEYS, RATES, rate_case

BODY = {"note": "x" * 270, "order_id": 9182}
"""About 300 bytes."""
PATIENCE = 120.0
GROWTH = 32.0
"""Most MiB by which the worker may grow in an outage."""
_PUBLISH = """
    select holdfast.publish_events(
        array(select holdfast.uuidv7() from generate_series(1, $1)), array_fill($2::text, array[$1]),
        array_fill(1, array[$1]), array(select 'key ' || n % $4::int from generate_series(1, $1) n),
        array_fill(null::text, array[$1]), array_fill(null::jsonb, array[$1]), array_fill($3::jsonb, array[$1]), null,
        false, false, null)
"""
_OUTCOME = """
    select max(attempts)::int, extract(epoch from max(finished_at) - min(claimed_at))::float8 from holdfast.archive
"""
"""The time is from the first claim to the last completion, by the server's clock."""


async def run(ground: Ground, results: Results, full: bool) -> None:
    events = 50_000 if full else 20_000
    for kind, (free, ordered) in RATES.items():
        try:
            with started(kind) as destination:
                for target, words, keyed in ((free, "", False), (ordered, ", ordered, 100 keys", True)):
                    rates = [await _drain(ground, destination, kind, events, keyed) for _ in range(3 if full else 2)]
                    what = f"{events:,} events to {kind}{words}, confirmed"
                    goal = at_least(target) if target is not None else None
                    results.add("relay", what, "events/s", rates, goal, case=rate_case(kind, keyed))
                if kind == "nats":
                    await _lag(ground, results, destination, 30 if full else 10)
                    await _outage(ground, results, destination, 60 if full else 15)
        except NotThere as why:
            print(f"    {kind} is left out: {why}", flush=True)


@contextmanager
def _relay(url: str, kind: str, destination: Destination, ordered: bool) -> Iterator[int]:
    os.environ[PLACE] = json.dumps({"kind": kind, "url": destination.url, "ordered": ordered})
    try:
        with worker(url, app="bench.relay.app:hf") as supervisor:
            yield supervisor
    finally:
        del os.environ[PLACE]


async def _fill(watch: asyncpg.Connection, events: int, ordered: bool, endpoint: str | None = None) -> None:
    await watch.execute("select holdfast.make_event_partitions(1)")
    name = "bus" if endpoint is None else "webhooks"
    await watch.execute(
        "insert into holdfast.routes (name, types, queue, ordered) values ($1, '{*}', 'out.' || $1, $2)", name, ordered
    )
    if endpoint is not None:
        await watch.execute(
            "insert into holdfast.endpoints (url, ordered, secrets) values ($1, $2, $3::jsonb)",
            endpoint, ordered, json.dumps([{"secret": new_secret(), "created_at": "now", "expires_at": None}]),
        )  # fmt: skip
    for _ in range(events // 1000):
        await watch.execute(_PUBLISH, 1000, TYPE, json.dumps(BODY), KEYS)


async def _drain(ground: Ground, destination: Destination, kind: str, events: int, ordered: bool) -> float:
    await destination.prepare()
    async with ground.database() as url, connected(url) as watch:
        await _fill(watch, events, ordered, destination.url if kind == "webhooks" else None)
        await watch.execute("analyze")
        await settle(watch)
        with _relay(url, kind, destination, ordered):
            # Seldom: this walks over all that has ended, and took up to a third of a core.
            await _until(watch, "select exists (select from holdfast.inbox)", False, every=0.1)
        attempts, seconds = (await watch.fetch(_OUTCOME))[0]
    if (found := await destination.count()) != events or attempts != 1:
        raise AssertionError(f"{kind} has {found} of {events} events; at most {attempts} attempts")
    return events / float(seconds)


async def _until(watch: asyncpg.Connection, question: str, answer: bool, every: float = 0.005) -> float:
    deadline = time.monotonic() + PATIENCE
    while (asked := time.monotonic()) < deadline:
        if await watch.fetchval(question) is answer:
            return asked
        check_workers()
        await asyncio.sleep(max(every, 2 * (time.monotonic() - asked)))
    raise TimeoutError(f"{question!r} is not {answer} after {PATIENCE:.0f} s")


async def _lag(ground: Ground, results: Results, destination: Destination, seconds: int) -> None:
    """From the end of the publish call, which has committed, until a subscriber has the message; 100 a second."""
    import nats

    await destination.prepare()
    arrived: dict[str, float] = {}
    committed: dict[str, float] = {}
    client = await nats.connect(destination.url)

    async def note(message: Any) -> None:
        arrived[message.headers["ce-id"]] = time.perf_counter()

    await client.subscribe("bench.>", cb=note)
    async with ground.database() as url, connected(url) as watch:
        await _fill(watch, 0, False)
        with _relay(url, "nats", destination, False):
            hf = Holdfast(url)
            await hf.publish(TYPE, BODY)
            await _until(watch, "select is_called from holdfast.fence", True)
            await asyncio.sleep(1)
            arrived.clear()
            at = time.perf_counter()
            for _ in range(100 * seconds):
                made = await hf.publish(TYPE, BODY)
                committed[str(made.id)] = time.perf_counter()
                at += 0.01
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
            await asyncio.sleep(1)
            await hf.close()
    await client.close()
    lags = sorted(max(0.0, arrived[id] - at) * 1000 for id, at in committed.items())
    name = "commit to receipt at 100 events/s"
    results.add("relay", f"{name}, median", "ms", [percentile(50, lags)], case="lag.p50")
    results.add("relay", f"{name}, p99", "ms", [percentile(99, lags)], at_most(50), case="lag.p99")


async def _outage(ground: Ground, results: Results, destination: Destination, seconds: int) -> None:
    """The broker is gone for a while, and events are published all the time."""
    await destination.prepare()
    async with ground.database() as url, connected(url) as watch:
        await _fill(watch, 0, False)
        with _relay(url, "nats", destination, False) as supervisor:
            hf = Holdfast(url)
            await watch.execute(_PUBLISH, 5000, TYPE, json.dumps(BODY), KEYS)
            await _until(watch, "select exists (select from holdfast.inbox)", False)
            before = memory(family(supervisor))
            destination.server.kill()
            most, ends, published = 0.0, time.monotonic() + seconds, 5000
            while time.monotonic() < ends:
                for _ in range(10):
                    await hf.publish(TYPE, BODY)
                published += 10
                most = max(most, memory(family(supervisor)))
                await asyncio.sleep(0.05)
            destination.server.start()
            back = time.monotonic()
            ended = await _until(watch, "select exists (select from holdfast.inbox)", False)
            attempts = await watch.fetchval("select max(attempts) from holdfast.archive")
            most = max(most, memory(family(supervisor)))
            await hf.close()
    found = await destination.count()
    if found != published:
        raise AssertionError(f"nats has {found} of {published} events")
    growth = (most - before) / 1.048576
    name = f"{seconds} s without the broker"
    results.add("relay", f"{name}: attempts of an event", "", [float(attempts)], at_most(1), case="outage.attempts")
    results.add("relay", f"{name}: growth of the worker", "MiB", [growth], at_most(GROWTH), case="outage.memory")
    results.add("relay", f"{name}: until all is delivered", "s", [ended - back], case="outage.recovery")
