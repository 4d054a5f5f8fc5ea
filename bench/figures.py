"""Figures: several values of one thing, their median and spread, and the target they are held against."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

OURS = "holdfast"
YARDSTICKS = ("pgbench", "bare")
"""Systems that are no peers: our own statements without Python, and the bare statement through the same driver."""


@dataclass(frozen=True, slots=True)
class Target:
    """`at_least` decides which side of the limit is good."""

    limit: float
    at_least: bool
    fails: float | None = None
    """Beyond this, the goal is not just missed: it is a failure."""

    def met(self, value: float) -> bool:
        return self._within(self.limit, value)

    def verdict(self, value: float) -> str:
        if self.met(value):
            return "met"
        return "MISSED" if self.fails is None or self._within(self.fails, value) else "FAILED"

    def _within(self, limit: float, value: float) -> bool:
        return value >= limit if self.at_least else value <= limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {number(self.limit)}"


def at_least(limit: float, fails: float | None = None) -> Target:
    return Target(limit, True, fails)


def at_most(limit: float) -> Target:
    return Target(limit, False)


@dataclass(frozen=True, slots=True)
class Figure:
    axis: str
    name: str
    """What was measured, in words."""
    unit: str
    values: Sequence[float]
    target: Target | None = None
    system: str = OURS
    """`holdfast`, one of the yardsticks, or a peer."""
    case: str = ""
    """A short name within the axis, for plots, the document and comparisons; the same for every system."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        return "" if self.target is None else self.target.verdict(self.median)

    @property
    def shown(self) -> str:
        return f"{number(self.median)} {self.unit}".rstrip()

    @property
    def spread(self) -> str:
        return f"({number(min(self.values))}–{number(max(self.values))})" if len(self.values) > 1 else ""

    def to_json(self) -> dict[str, Any]:
        target = self.target and {"limit": self.target.limit, "at_least": self.target.at_least}
        if target and self.target and self.target.fails is not None:
            target["fails"] = self.target.fails
        return {
            "axis": self.axis, "case": self.case, "system": self.system, "name": self.name, "unit": self.unit,
            "median": self.median, "min": min(self.values), "max": max(self.values), "values": list(self.values),
            "target": target, "verdict": self.verdict,
        }  # fmt: skip

    @classmethod
    def from_json(cls, it: dict[str, Any]) -> Self:
        target = it["target"] and Target(**it["target"])
        return cls(it["axis"], it["name"], it["unit"], it["values"], target, it["system"], it["case"])


@dataclass(slots=True)
class Results:
    size: str
    server: str = ""
    figures: list[Figure] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """How each system was set up, in words: version, and what its documentation says makes it fast."""
    failures: dict[str, str] = field(default_factory=dict)
    """Axes that could not be measured, and why."""
    conditions: str = ""
    apart: dict[str, str] = field(default_factory=dict)
    """Axes that are from another run, and its conditions."""
    beside: Sequence[str] = ()
    """Peers that take part in this run: what is measured in turns with them is left to that."""
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """Of the machine before the run; what else it does makes absolute figures low."""

    def add(
        self, axis: str, name: str, unit: str, values: Sequence[float], target: Target | None = None, *,
        system: str = OURS, case: str = "",
    ) -> None:  # fmt: skip
        figure = Figure(axis, name, unit, list(values), target, system, case)
        self.figures.append(figure)
        whose = "" if system == OURS else f"{system}:"
        words = [whose, figure.name, figure.shown, figure.spread, str(target or ""), figure.verdict]
        print("   ", "  ".join(filter(None, words)), flush=True)

    def find(self, axis: str, case: str, system: str = OURS) -> Figure | None:
        """The figure of a case; the last, if it was measured again."""
        return next((f for f in reversed(self.figures) if (f.axis, f.case, f.system) == (axis, case, system)), None)

    def peers(self, axis: str, case: str) -> list[Figure]:
        """What others did in a case."""
        others = (f for f in self.figures if f.system not in (OURS, *YARDSTICKS))
        return [f for f in others if (f.axis, f.case) == (axis, case)]

    @property
    def systems(self) -> list[str]:
        """All of them: ours first, then the peers in the order of their run."""
        return list(dict.fromkeys([OURS, *(f.system for f in self.figures if f.system not in YARDSTICKS)]))

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.verdict in ("MISSED", "FAILED")]

    def ratio(self, figure: Figure) -> float | None:
        """Ours ÷ this, for a figure of another system."""
        ours = self.find(figure.axis, figure.case) if figure.case and figure.system != OURS else None
        return ours.median / figure.median if ours and figure.median else None

    def table(self) -> str:
        head = ("axis", "system", "figure", "median", "spread", "n", "ours ÷ it", "target", "")
        rows = [head, *map(self._cells, self.figures)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = []
        for row in rows:
            left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
            right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
            lines.append("  ".join(left + right).rstrip())
        lines.insert(1, "─" * max(map(len, lines)))
        return "\n".join([self.under(), "", *lines, *self._failed()])

    def _cells(self, figure: Figure) -> tuple[str, ...]:
        ratio = self.ratio(figure)
        return (
            figure.axis, figure.system, figure.name, figure.shown, figure.spread, str(len(figure.values)),
            "" if ratio is None else number(ratio), str(figure.target or ""), figure.verdict,
        )  # fmt: skip

    def _failed(self) -> Iterator[str]:
        for axis, why in self.failures.items():
            yield f"{axis} could not be measured: {why}"

    def under(self) -> str:
        """Under which conditions: those of a file that was read, else of this machine."""
        return self.conditions or f"{self.size} size; {machine(self.server, self.load)}; median (least–most)"

    def take(self, other: Results) -> None:
        """Have the axes of another run in place of these."""
        axes = list(dict.fromkeys(figure.axis for figure in other.figures))
        self.figures = [*(figure for figure in self.figures if figure.axis not in axes), *other.figures]
        self.settings |= other.settings
        self.apart[", ".join(axes)] = other.under()

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        everything = {
            "conditions": self.under(), "size": self.size, "server": self.server, "settings": self.settings,
            "failures": self.failures, "figures": [figure.to_json() for figure in self.figures],
        }  # fmt: skip
        path.write_text(json.dumps(everything, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        it = json.loads(path.read_text(encoding="utf-8"))
        figures = [Figure.from_json(figure) for figure in it["figures"]]
        return cls(it["size"], it["server"], figures, it["settings"], it["failures"], it["conditions"])


def machine(server: str, load: float) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{server}; Python {platform.python_version()}; {cores} cores, load average {load:.1f} before"


def ratios(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Of what was measured in turns."""
    return [one / other for one, other in zip(some, others, strict=True)]


def percentile(share: int, ascending: Sequence[float]) -> float:
    """The nearest rank."""
    return ascending[math.ceil(len(ascending) * share / 100) - 1]


def number(value: float) -> str:
    """Three figures that matter, or all digits before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
