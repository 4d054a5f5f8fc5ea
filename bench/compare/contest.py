"""Run it: pairs of turns on one server, each turn in a database and a process of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from ..databases import Databases
from ..figures import number
from ..ground import Ground
from ..turn.cases import AXES
from ..turn.measured import Measured
from ..turn.start import TurnFailed, turn
from ..turns import say
from .alternation import Pair, pairs
from .disturbance import MOST, Disturbance
from .report import Report
from .sides import Side

SIZE = "short"
ENOUGH = 2
"""Failures of a case until it is given up."""

Turn = Callable[[Side, str], Awaitable[list[Measured]]]


class Incomparable(Exception):
    """Axes that cannot be compared, in one sentence."""


def cases_of(axes: Sequence[str]) -> list[str]:
    """The turns of these axes; of all that can be compared, if none is named."""
    if unknown := [name for name in axes if name not in AXES]:
        raise Incomparable(f"{', '.join(unknown)} cannot be compared between commits; what can is {', '.join(AXES)}.")
    return [case for name in axes or AXES for case in AXES[name]]


async def run(ground: Ground, this: Side, other: Side, cases: Sequence[str], turns: int, report: Report) -> None:
    async with AsyncExitStack() as stack:
        databases = await stack.enter_async_context(Databases.on(ground))
        templates: dict[str, str] = {}

        async def once(side: Side, case: str) -> list[Measured]:
            async with databases.fresh(templates[side.name]) as url:
                return await turn(case, SIZE, url, ground.postmaster, side.environment, side.folder)

        for side in (this, other):
            templates[side.name] = await stack.enter_async_context(databases.fresh())
            await turn("migrate", SIZE, templates[side.name], None, side.environment, side.folder)
        await Contest(this, other, once, report).run(cases, turns)


@dataclass(slots=True)
class Contest:
    this: Side
    other: Side
    once: Turn
    report: Report
    disturbance: Callable[[], Disturbance] = Disturbance
    _failed: dict[str, int] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)
    """How many more pairs of each case may be measured again, because others had the cores."""

    async def run(self, cases: Sequence[str], turns: int) -> None:
        planned = list(pairs(turns, cases))
        self._left = dict.fromkeys(cases, turns)
        took: dict[str, list[float]] = {}
        for done, pair in enumerate(planned):
            if self._failed.get(pair.case, 0) >= ENOUGH:
                continue
            began = time.monotonic()
            while (words := await self._pair(pair)) is None:
                say(f"turn {pair.turn} of {turns}, {pair.case}: others had too much of the machine; again")
            took.setdefault(pair.case, []).append(time.monotonic() - began)
            left = [each.case for each in planned[done + 1 :] if self._failed.get(each.case, 0) < ENOUGH]
            say(f"turn {pair.turn} of {turns}, {pair.case}: {words}; {_time_left(left, took)}")

    async def _pair(self, pair: Pair[str]) -> str | None:
        """Both or neither: a figure without its partner says nothing. None: others had too much of the machine.

        Nobody looks at the figures before that is decided, so it favours no side.
        """
        disturbance = self.disturbance()
        order = (self.this, self.other) if pair.this_first else (self.other, self.this)
        measured: dict[str, list[Measured]] = {}
        for side in order:
            try:
                measured[side.name] = await self.once(side, pair.case)
            except TurnFailed as why:
                self._failed[pair.case] = self._failed.get(pair.case, 0) + 1
                self.report.fail(pair.case, side, str(why))
                return f"{side.name} failed: {why}"
        if disturbance.share > MOST and self._left[pair.case] > 0:
            self._left[pair.case] -= 1
            self.report.repeated += 1
            return None
        self.report.disturbed += disturbance.share > MOST
        self.report.add(measured[self.this.name], measured[self.other.name])
        return _beside(measured[self.this.name][0], measured[self.other.name][0], self.other.name)


def _beside(this: Measured, other: Measured, name: str) -> str:
    mine, theirs = (sorted(each.values)[len(each.values) // 2] for each in (this, other))
    return f"{number(mine)} {this.unit}, {name} {number(theirs)}"


def _time_left(cases: Sequence[str], took: Mapping[str, Sequence[float]]) -> str:
    """By what each case took so far, on average; those of the first turn are not all known yet."""
    if not cases:
        return "done"
    known = {case: sum(times) / len(times) for case, times in took.items()}
    usual = sum(known.values()) / len(known)
    minutes = sum(known.get(case, usual) for case in cases) / 60
    return f"about {minutes:.0f} min left" if minutes >= 1 else "less than a minute left"
