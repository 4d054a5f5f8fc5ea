"""What the pairs gave: one line per figure, with CPU per job beside it; and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..figures import number, percentile
from ..turn.measured import Measured
from .disturbance import MOST
from .ratios import MARGIN, UNKNOWN, WORSE, Ratios
from .sides import Side

SHARES = (50, 95)
"""Percentiles of times. A turn is too short for the 99th."""
HEAD = (
    "axis",
    "figure",
    "this",
    "other",
    "ratio",
    "95 % interval",
    "",
    "CPU µs/job",
    "other",
    "ratio",
    "95 % interval",
)


@dataclass(slots=True)
class Line:
    """A figure of both sides, one value for each pair of turns."""

    axis: str
    case: str
    words: str
    unit: str
    more_is_better: bool
    these: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    cpu_these: list[float] = field(default_factory=list)
    cpu_others: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> Ratios:
        return Ratios(self.these, self.others, self.more_is_better)

    @property
    def cpu(self) -> Ratios | None:
        return Ratios(self.cpu_these, self.cpu_others, False) if self.cpu_these else None


class Report:
    def __init__(self, this: str, other: str) -> None:
        self._names = this, other
        self.lines: dict[tuple[str, str], Line] = {}
        self.failures: dict[str, tuple[str, str]] = {}
        """Why a case has fewer pairs: which side, and what it said."""
        self.conditions = ""
        self.repeated = self.disturbed = 0
        """Pairs in which others had too much of the machine: those that were measured again, and those that count."""

    def add(self, this: Sequence[Measured], other: Sequence[Measured]) -> None:
        """One pair of turns."""
        for one, its in zip(this, other, strict=True):
            for share, words, cpu in _parts(one):
                line = self.lines.setdefault((one.axis, f"{one.case}{share}"), _line(one, f"{one.case}{share}", words))
                line.these.append(_value(one, share))
                line.others.append(_value(its, share))
                if cpu and one.cpu and its.cpu:
                    line.cpu_these.append(one.cpu)
                    line.cpu_others.append(its.cpu)

    def fail(self, case: str, side: Side, why: str) -> None:
        self.failures[case] = (side.name, why)

    @property
    def worse(self) -> list[Line]:
        return [line for line in self.lines.values() if line.ratios.verdict == WORSE]

    @property
    def failed(self) -> bool:
        """A regression; nothing to compare; or this tree could not do what the other can."""
        return bool(self.worse) or not self.lines or any(side == "this" for side, _ in self.failures.values())

    def table(self) -> str:
        head = [self._names[1] if cell == "other" else cell for cell in HEAD]
        rows = [head, *map(_cells, self.lines.values())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = []
        for row in rows:
            left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(left + right).rstrip())
        lines.insert(1, "─" * max(map(len, lines)))
        return "\n".join([self.conditions, "", *lines, "", *self._summary()])

    def _summary(self) -> Iterator[str]:
        if self.repeated:
            yield (
                f"{self.repeated} pairs of turns were measured again, because other guests of this host had more than "
                f"{MOST:.0%} of its CPU time; {self.disturbed} such pairs count, since it did not get better."
            )
        for case, (side, why) in self.failures.items():
            yield f"{case} failed with the source of {side}: {why}"
        if any(line.ratios.verdict == UNKNOWN for line in self.lines.values()):
            yield "Fewer than six pairs have no interval of 95 %: nothing can be said. The usual number is 15."
        elif worse := self.worse:
            names = "; ".join(f"{line.axis}: {line.words}" for line in worse)
            yield f"Worse by more than {MARGIN:.0%}, with all of the interval: {names}."
        elif self.lines:
            yield f"No regression: no interval lies wholly beyond {MARGIN:.0%} worse."

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        everything = {
            "conditions": self.conditions, "this": self._names[0], "other": self._names[1],
            "repeated": self.repeated, "disturbed": self.disturbed,
            "failures": {case: {"side": side, "why": why} for case, (side, why) in self.failures.items()},
            "figures": [_json(line) for line in self.lines.values()],
        }  # fmt: skip
        path.write_text(json.dumps(everything, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _parts(measured: Measured) -> Iterator[tuple[str, str, bool]]:
    """The figures that one measurement makes: case, words, and whether CPU stands beside it."""
    if measured.unit != "ms":
        yield "", measured.words, True
    elif len(measured.values) < 20:  # a percentile of a few is their largest
        yield ".p50", f"{measured.words}, median", True
    else:
        for share in SHARES:
            yield f".p{share}", f"{measured.words}, {'median' if share == 50 else f'{share}th percentile'}", share == 50


def _value(measured: Measured, share: str) -> float:
    if share == ".p50":
        return median(measured.values)
    return percentile(int(share.removeprefix(".p")), sorted(measured.values)) if share else measured.values[0]


def _line(measured: Measured, case: str, words: str) -> Line:
    return Line(measured.axis, case, words, measured.unit, measured.more_is_better)


def _cells(line: Line) -> list[str]:
    this, other = (f"{number(median(values))} {line.unit}" for values in (line.these, line.others))
    cells = [line.axis, line.words, this, other, *_ratio(line.ratios), line.ratios.verdict]
    if (cpu := line.cpu) is None:
        return [*cells, "", "", "", ""]
    return [*cells, number(median(line.cpu_these)), number(median(line.cpu_others)), *_ratio(cpu)]


def _ratio(ratios: Ratios) -> tuple[str, str]:
    reach = ratios.interval
    return f"{ratios.median:.3f}", f"{reach[0]:.3f}–{reach[1]:.3f}" if reach else "–"


def _json(line: Line) -> dict[str, Any]:
    cpu = line.cpu
    return {
        "axis": line.axis, "case": line.case, "words": line.words, "unit": line.unit,
        "these": line.these, "others": line.others, "ratio": line.ratios.median, "interval": line.ratios.interval,
        "verdict": line.ratios.verdict,
        "cpu": cpu and {
            "these": cpu.these, "others": cpu.others, "ratio": cpu.median, "interval": cpu.interval,
            "verdict": cpu.verdict,
        },
    }  # fmt: skip
