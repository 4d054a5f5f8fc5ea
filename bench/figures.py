"""Figures: several values of one thing, their median and spread, and the target they are held against."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """`at_least` decides which side of the limit is good."""

    limit: float
    at_least: bool

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {number(self.limit)}"


def at_least(limit: float) -> Target:
    return Target(limit, True)


def at_most(limit: float) -> Target:
    return Target(limit, False)


@dataclass(frozen=True, slots=True)
class Figure:
    axis: str
    name: str
    unit: str
    values: Sequence[float]
    target: Target | None = None
    system: str = "holdfast"
    case: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.target.met(self.median) else "MISSED"


@dataclass(slots=True)
class Results:
    size: str
    server: str = ""
    figures: list[Figure] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """How each system was set up, in words: version, and what its documentation says makes it fast."""

    def add(
        self, axis: str, name: str, unit: str, values: Sequence[float], target: Target | None = None,
        *, system: str = "holdfast", case: str = "",
    ) -> None:  # fmt: skip
        figure = Figure(axis, name, unit, list(values), target, system, case)
        self.figures.append(figure)
        print("   ", "  ".join(cell for cell in _cells(figure)[1:] if cell), flush=True)

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.verdict == "MISSED"]

    def table(self) -> str:
        rows = [("axis", "figure", "median", "spread", "n", "target", ""), *map(_cells, self.figures)]
        widths = [max(len(row[column]) for row in rows) for column in range(7)]
        lines = []
        for row in rows:
            left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(left + right).rstrip())
        lines.insert(1, "─" * max(map(len, lines)))
        return "\n".join([self.conditions(), "", *lines])

    def conditions(self) -> str:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return (
            f"{self.size} size; {self.server}; Python {platform.python_version()}; {cores} cores; median (least–most)"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = [
            {
                "axis": f.axis, "name": f.name, "unit": f.unit, "median": f.median, "values": list(f.values),
                "target": str(f.target) if f.target else None, "met": f.target.met(f.median) if f.target else None,
                "system": f.system, "case": f.case,
            }
            for f in self.figures
        ]  # fmt: skip
        path.write_text(
            json.dumps({"conditions": self.conditions(), "settings": self.settings, "figures": figures}, indent=2)
            + "\n"
        )


def number(value: float) -> str:
    """Three figures that matter, or all digits before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = f"({number(min(figure.values))}–{number(max(figure.values))})" if len(figure.values) > 1 else ""
    target = str(figure.target) if figure.target else ""
    median = f"{number(figure.median)} {figure.unit}".rstrip()
    name = figure.name if figure.system == "holdfast" else f"{figure.system}: {figure.name}"
    return figure.axis, name, median, spread, str(len(figure.values)), target, figure.verdict
