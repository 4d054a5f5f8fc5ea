"""Instances per second with 1 and 5 no-op steps, 20 and 100 in flight: ours, and those of DBOS and Absurd, in turns.

Ours are also held against the bare drain of the same turn: no-op jobs at `-c 100`. After every drain, each instance
must have completed once, and all its steps must be recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import asyncpg

from ..databases import Databases
from ..figures import OURS, Results, ratios
from ..ground import Ground, connected
from ..peers import environment
from ..peers.draining import drain
from ..peers.driver import Driver, DriverFailed
from ..peers.peer import PEERS, LeftOut
from ..peers.race import leave_out
from ..turns import turns
from .cases import BARE, CASES, Case

BESIDE = ("absurd", "dbos")

Once = Callable[[Ground, Case, int], Awaitable[float]]
"""Drain so many instances of ours; how many per second."""


@dataclass(frozen=True, slots=True)
class Size:
    repeats: int
    ours: Mapping[int, int]
    """Instances of a drain, by the number of steps."""
    peers: Mapping[int, int]


FULL = Size(5, {0: 100_000, 1: 60_000, 5: 20_000}, {1: 2_000, 5: 600})
REDUCED = Size(3, {0: 40_000, 1: 24_000, 5: 8_000}, {1: 400, 5: 200})


@dataclass(slots=True)
class Rates:
    """Of one system: the rates of each case, turn by turn."""

    system: str
    rates: dict[str, list[float]] = field(default_factory=dict)

    def add(self, case: Case, rate: float) -> None:
        self.rates.setdefault(case.name, []).append(rate)

    def report(self, results: Results, cases: Sequence[Case]) -> None:
        for case in cases:
            if values := self.rates.get(case.name):
                unit = "instances/s" if case.steps else "jobs/s"
                results.add("workflows", case.words, unit, values, system=self.system, case=case.name)

    def report_shares(self, results: Results) -> None:
        """Each case as a share of the bare drain of the same turn."""
        for case in CASES:
            share = ratios(self.rates[case.name], self.rates[BARE.name])
            words = f"{case.words} ÷ {BARE.words}"
            results.add("workflows", words, "", share, case.goal, case=f"{case.name}.share")


@dataclass(slots=True)
class Entrant:
    """A peer in the run: its drivers, and for each number in flight a template that is set up for it."""

    driver: Driver
    templates: Mapping[int, str]
    rates: Rates


async def run(ground: Ground, results: Results, full: bool, ours: Once | None) -> None:
    """`ours` is None if this Holdfast has no workflows: then only the peers are measured."""
    size = FULL if full else REDUCED
    mine = Rates(OURS)
    async with AsyncExitStack() as stack:
        databases = await stack.enter_async_context(Databases.on(ground))
        entrants = await _entrants(stack, databases, results)
        for _ in turns(size.repeats, ["rates"]):
            for case in (BARE, *CASES) if ours else ():
                assert ours is not None
                mine.add(case, await ours(ground, case, size.ours[case.steps]))
            for entrant in list(entrants):
                try:
                    await _turn(ground, databases, entrant, size, results)
                except (DriverFailed, TimeoutError, asyncpg.PostgresError) as why:
                    entrants.remove(entrant)
                    leave_out(results, entrant.rates.system, "workflows and what follows", why)
    if ours:
        mine.report(results, (BARE, *CASES))
        mine.report_shares(results)
    for entrant in entrants:
        entrant.rates.report(results, CASES)


async def _entrants(stack: AsyncExitStack, databases: Databases, results: Results) -> list[Entrant]:
    found = []
    for name in BESIDE:
        try:
            driver = Driver(PEERS[name], await environment.command(PEERS[name]))
            templates = {}
            for flight in dict.fromkeys(case.flight for case in CASES):
                templates[flight] = await stack.enter_async_context(databases.fresh())
                await driver.call("install", templates[flight], f"flight={flight}")
            found.append(Entrant(driver, templates, Rates(name)))
        except (LeftOut, DriverFailed) as why:
            leave_out(results, name, "workflows", why)
    return found


async def _turn(ground: Ground, databases: Databases, entrant: Entrant, size: Size, results: Results) -> None:
    """Each case once. What was measured counts only if all of it was."""
    found = []
    for case in CASES:
        jobs = size.peers[case.steps]
        async with databases.fresh(entrant.templates[case.flight]) as url:
            await entrant.driver.call("bulk", url, jobs)
            settings = (f"steps={case.steps}", f"flight={case.flight}")
            drained = await drain(ground, entrant.driver, url, jobs, settings=settings)
            async with connected(url) as watch:
                check(await watch.fetchval(entrant.driver.peer.sql("steps")), jobs, case.steps, entrant.rates.system)
        found.append((case, drained.rate))
        words = "{version} on {runtime}: {settings}".format_map(drained.ready)
        results.settings.setdefault(f"{entrant.rates.system}, workflows, {case.flight} in flight", words)
    for case, rate in found:
        entrant.rates.add(case, rate)
    said = ", ".join(f"{rate:,.0f}" for _, rate in found)
    print(f"    {entrant.rates.system}: {said} instances/s", flush=True)


def check(recorded: int, jobs: int, steps: int, name: str) -> None:
    """Raise if not every step of every instance is recorded, once."""
    if recorded != jobs * steps:
        raise DriverFailed(f"{name}: {jobs} instances of {steps} steps have ended, and {recorded} steps are recorded")
