"""Replay: an instance with 1,000 recorded steps is woken by signals, in turns with one that has none.

What a recorded step costs is the difference of the two waits, from the call of signal until the code has gone on: it
includes reading and decoding the history. The part of it that is the code's own way past its steps is shown beside it.
"""

from __future__ import annotations

import asyncio
import json
import time

from ..draining import until, until_archived
from ..figures import Results, at_most
from ..ground import Ground, connected
from ..processes import worker
from ..turns import turns
from .app import PLACE, client
from .arithmetic import per_step, waits
from .questions import MARKS, PARKED, RESULTS

STEPS = 1_000
ROUNDS = 20
REPEATS = {True: 5, False: 3}


async def run(ground: Ground, results: Results, full: bool) -> None:
    whole, code = [], []
    for _ in turns(REPEATS[full], ["replay"]):
        found, took = await _once(ground)
        whole.append(per_step(found[STEPS], found[0], STEPS))
        code.append(took / STEPS * 1e6)
    words = f"replay of {STEPS:,} recorded steps"
    results.add("workflows", words, "µs/step", whole, at_most(10), case="replay")
    results.add("workflows", f"{words}, the code alone", "µs/step", code, case="replay.code")


async def _once(ground: Ground) -> tuple[dict[int, list[float]], float]:
    """The waits of both instances, by the number of their recorded steps; seconds of the longer one's own code."""
    sent: dict[int, list[float]] = {STEPS: [], 0: []}
    async with ground.database() as url, connected(url) as watch, client(url) as producer:
        with worker(url, "-c", "20", app=PLACE):
            for steps in sent:
                await producer.start(producer.flows.recorded, f"{steps}", steps=steps, rounds=ROUNDS)
            await until(watch, PARKED, len(sent))
            for number in range(ROUNDS - 1):
                for nth, (steps, at) in enumerate(sent.items(), 1):
                    # The worker must have fallen asleep, for both alike.
                    await asyncio.sleep(0.2)
                    at.append(time.monotonic())
                    await producer.signal(f"{steps}", "go")
                    await until(watch, MARKS, number * len(sent) + nth)
            # The longer one ends first, so that its result is the first.
            for ended, (steps, at) in enumerate(sent.items(), 1):
                at.append(time.monotonic())
                await producer.signal(f"{steps}", "go")
                await until_archived(watch, ended)
        ends = [json.loads(result) for (result,) in await watch.fetch(RESULTS)]
    found = {steps: waits(at, end[0]) for (steps, at), end in zip(sent.items(), ends, strict=True)}
    return found, ends[0][1][0]
