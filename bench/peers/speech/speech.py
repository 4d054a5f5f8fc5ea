"""The driver's side, for drivers in Python. It runs in the peers' environments, so it needs nothing but Python."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

NOTE = "x" * 60
"""Makes a payload of about 100 bytes, as for ours."""
WARM = 20
HELD = 0.05
"""Seconds that a job of a burst takes, so that one worker cannot take them all."""
Payload = dict[str, Any]
Handle = Callable[[int, float | None], None]
"""To be called by the handler with the job's number (any distinct one) and its `sent`."""


class Client(Protocol):
    async def one(self, payload: Payload) -> object:
        """One job, committed when this returns."""

    async def many(self, payloads: Sequence[Payload]) -> object:
        """Many jobs, committed when this returns."""


@dataclass(frozen=True)
class Peer:
    package: str
    settings: str
    install: Callable[[str], Awaitable[None]]
    client: Callable[[str], AbstractAsyncContextManager[Client]]
    work: Callable[[str, Handle, Callable[[], None]], Awaitable[None]]
    """Run a worker for ever; call the last argument when it is up."""
    batch: int = 1_000
    """Jobs in one call of `many`."""


def say(event: str, **words: Any) -> None:
    # One write, so that threads do not cut into each other's lines.
    os.write(1, (json.dumps({"event": event, **words}) + "\n").encode())


def now() -> float:
    """CLOCK_MONOTONIC, which all processes of a host share."""
    return time.monotonic()


def of_pickup() -> bool:
    """Whether this is a worker that says how long each job was on its way."""
    return sys.argv[1] in ("worker-pickup", "worker-hand")


def one_hand() -> bool:
    """Whether this is a worker of a fleet, which takes as few jobs at a time as the peer can be told to."""
    return sys.argv[1] == "worker-hand"


def many_calls_at_once() -> bool:
    """Whether this is a producer that does not wait for one call before the next."""
    return sys.argv[1] == "burst"


def steps() -> int:
    """How many steps each job has, as a workflow; 0: it is a plain job."""
    return int(_settings().get("steps", 0))


def flight(usual: int) -> int:
    """How many jobs may run at a time: as many as the bench asks for, or as the peer usually does best with."""
    return int(_settings().get("flight", usual))


def _settings() -> dict[str, str]:
    return dict(word.split("=") for word in sys.argv[3:] if "=" in word)


async def rest() -> None:
    """To be awaited by the handler at its end: one of a fleet keeps its hand busy for a while."""
    if one_hand():
        await asyncio.sleep(HELD)


async def run(peer: Peer) -> None:
    name, url, *words = sys.argv[1:]
    numbers = [word for word in words if "=" not in word]
    if name == "install":
        await peer.install(url)
        say("done")
    elif name == "bulk":
        await _bulk(peer, url, int(numbers[0]))
    elif name == "single":
        await _single(peer, url, int(numbers[0]))
    elif name == "pickup":
        await _pickup(peer, url, int(numbers[0]), float(numbers[1]), float(numbers[2]))
    elif name == "burst":
        await _burst(peer, url, int(numbers[0]), int(numbers[1]), float(numbers[2]), float(numbers[3]), numbers[4])
    else:
        await _work(peer, url, int(numbers[0]))


def _payload(number: int) -> Payload:
    return {"number": number, "note": NOTE}


async def _bulk(peer: Peer, url: str, jobs: int) -> None:
    """The first call does not count: it prepares statements and fills caches."""
    async with peer.client(url) as client:
        began = 0.0
        for first in range(0, jobs, peer.batch):
            await client.many([_payload(n) for n in range(first, min(first + peer.batch, jobs))])
            began = began or now()
        say("done", jobs=jobs - peer.batch, seconds=now() - began)


async def _single(peer: Peer, url: str, jobs: int) -> None:
    async with peer.client(url) as client:
        for n in range(WARM):
            await client.one(_payload(n))
        began = now()
        for n in range(jobs):
            await client.one(_payload(n))
        say("done", jobs=jobs, seconds=now() - began)


async def _pickup(peer: Peer, url: str, jobs: int, least: float, most: float) -> None:
    async with peer.client(url) as client:
        await paced(client, jobs, least, most)
        say("done")


async def _burst(peer: Peer, url: str, jobs: int, rounds: int, least: float, most: float, how: str) -> None:
    async with peer.client(url) as client:
        await bursts(client, jobs, rounds, least, most, how)
        say("done")


async def paced(client: Client, jobs: int, least: float, most: float) -> None:
    """One job after the other, so many seconds from one call to the next, however long a call takes.

    Timers are late by up to a millisecond: that is made up for, by one pause at most.
    """
    due = now()
    for number in range(jobs):
        due = max(due + random.uniform(least, most), now() - most)
        await asyncio.sleep(max(due - now(), 0))
        await client.one({**_payload(number), "sent": now()})


async def bursts(client: Client, jobs: int, rounds: int, least: float, most: float, how: str) -> None:
    """So many jobs at once, by one call (`many`) or by one call each (`one`), after so many seconds of silence."""
    for number in range(rounds):
        await asyncio.sleep(random.uniform(least, most))
        sent = now()
        payloads = [{**_payload(number * jobs + n), "sent": sent} for n in range(jobs)]
        if how == "many":
            await client.many(payloads)
        else:
            await asyncio.gather(*map(client.one, payloads))


async def _work(peer: Peer, url: str, jobs: int) -> None:
    calls = Calls(jobs)

    def ready() -> None:
        say(
            "ready",
            version=version(peer.package),
            runtime=f"Python {platform.python_version()}",
            settings=peer.settings,
        )

    def await_end() -> None:
        while os.read(0, 4096):
            pass
        try:
            say("stopped", calls=calls.count, distinct=sum(calls.seen))
        finally:
            # The bench has seen all jobs completed and drops the database next, or is gone: nothing is to be tidied.
            os._exit(0)

    threading.Thread(target=await_end, daemon=True).start()
    await peer.work(url, calls.waited if of_pickup() else calls.called, ready)


class Calls:
    """Counts the calls of the handler, and says when each quarter of them was reached."""

    def __init__(self, jobs: int) -> None:
        self.count = 0
        self.seen = bytearray(jobs + 1)
        self._quarter = max(jobs // 4, 1)

    def called(self, number: int, sent: float | None) -> None:
        self.count += 1
        self.seen[number] = 1
        if self.count % self._quarter == 0 or self.count == 1:
            say("calls", calls=self.count, at=now())

    def waited(self, number: int, sent: float | None) -> None:
        assert sent is not None
        say("waited", number=number, ms=(now() - sent) * 1000)
