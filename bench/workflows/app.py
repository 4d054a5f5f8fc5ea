"""The workflows that are measured, and all that depends on how Holdfast declares, starts, signals and stores them."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast import Flow, Holdfast

PLACE = "bench.workflows.app:hf"
"""For `holdfast worker`."""
BATCH = 5_000
"""Instances started in one call."""


async def nothing() -> None:
    """Nothing, so that everything measured is ours."""


async def now() -> float:
    """The one monotonic clock that the processes of a host share."""
    return time.monotonic()


async def one_step(flow: Flow, number: int, note: str) -> None:
    await flow.step("a", nothing)


async def five_steps(flow: Flow, number: int, note: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await flow.step(name, nothing)


async def marks(flow: Flow, steps: int) -> list[float]:
    """When each step began. A step begins when the one before it is durable."""
    return [await flow.step("mark", now) for _ in range(steps)]


async def sleeper(flow: Flow, due: float) -> None:
    """Sleep until a moment, in seconds since 1970; then run a step."""
    await flow.until("due", datetime.fromtimestamp(due, UTC))
    await flow.step("a", nothing)


async def recorded(flow: Flow, steps: int, rounds: int) -> list[list[float]]:
    """For each signal: when the code went on after it. At last: how long its own part of the last replay took."""
    began = time.monotonic()
    for _ in range(steps):
        await flow.step("a", nothing)
    took = time.monotonic() - began
    went_on = []
    for _ in range(rounds):
        await flow.wait("go")
        went_on.append(await flow.step("mark", now))
    return [went_on, [took]]


async def child(flow: Flow, number: int) -> int:
    return number


async def parent(flow: Flow, children: int) -> int:
    return sum(await flow.map("child", flows.child, [{"number": n} for n in range(children)]))


@dataclass(frozen=True, slots=True)
class Flows:
    """The workflows of one Holdfast."""

    steps: Mapping[int, Any]
    """No-op ones, by their number of steps."""
    marks: Any
    sleeper: Any
    recorded: Any
    child: Any
    parent: Any


def declare(hf: Any) -> Flows:
    workflow = hf.workflow(version=1)
    return Flows(
        {1: workflow(one_step), 5: workflow(five_steps)},
        workflow(marks), workflow(sleeper), workflow(recorded), workflow(child), workflow(parent),
    )  # fmt: skip


hf = Holdfast()
flows = declare(hf)


class Client:
    """The producer's side, on any database."""

    def __init__(self, url: str) -> None:
        self._hf: Any = Holdfast(url)
        self.flows = declare(self._hf)

    async def start(self, flow: Any, instance: str, **arguments: Any) -> None:
        await flow.options(id=instance).start(**arguments)

    async def start_many(self, flow: Any, arguments: Iterable[Mapping[str, Any]]) -> None:
        listed = list(arguments)
        for first in range(0, len(listed), BATCH):
            await flow.start_many(listed[first : first + BATCH])

    async def signal(self, instance: str, name: str) -> None:
        await self._hf.signal(instance, name)

    async def close(self) -> None:
        await self._hf.close()


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    made = Client(url)
    try:
        yield made
    finally:
        await made.close()
