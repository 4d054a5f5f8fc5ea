"""Small charts as SVG text: bars, ranges and lines, readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .figures import number

WIDTH = 720
LEFT, RIGHT, TOP = 170, 110, 58
ROW = 26

_STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .soft { fill: #59636e; }
    .ours { font-weight: 600; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .range { stroke: #1f2328; stroke-width: 1.5; }
    .bar, .dot { fill: #8c959f; }
    .bar.ours, .dot.ours { fill: #0969da; }
    .bar.yardstick { fill: none; stroke: #8c959f; stroke-width: 1.5; stroke-dasharray: 4 3; }
    .line { fill: none; stroke-width: 1.75; }
    .line.ours { stroke-width: 3.5; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .soft { fill: #9198a1; }
      .grid { stroke: #3d444d; }
      .range { stroke: #f0f6fc; }
      .bar.ours, .dot.ours { fill: #4493f8; }
    }
"""
_COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#0a7f8c", "#cf222e", "#6e7781")
"""Of lines; each is legible on white and on black. The first is ours."""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float
    least: float
    most: float
    kind: str = ""
    """"ours", "yardstick" or nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    points: Sequence[float]
    """One per mark of the axis."""


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars; a thin line shows least to most."""
    ticks = _ticks(max(row.most for row in rows))
    x = _linear(ticks[-1])
    parts = _frame(title, unit, ticks, x, len(rows))
    for n, row in enumerate(rows):
        middle = TOP + ROW * n + ROW / 2
        parts.append(_label(row, middle))
        parts.append(_box(LEFT, middle - 8, x(row.value) - LEFT, 16, f"bar {row.kind}"))
        if row.most > row.least:
            parts.append(_stroke(x(row.least), middle, x(row.most), middle, "range"))
        parts.append(_text(max(x(row.value), x(row.most)) + 6, middle + 4, number(row.value), row.kind))
    return _document(parts, TOP + ROW * len(rows) + 40)


def ranges(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """From `value` to `most` on a logarithmic axis, a dot at each."""
    ticks = _decades(min(row.value for row in rows), max(row.most for row in rows))
    x = _logarithmic(ticks[0], ticks[-1])
    parts = _frame(title, unit, ticks, x, len(rows))
    for n, row in enumerate(rows):
        middle = TOP + ROW * n + ROW / 2
        parts.append(_label(row, middle))
        parts.append(_stroke(x(row.value), middle, x(row.most), middle, "range"))
        parts += [_dot(x(value), middle, row.kind) for value in (row.value, row.most)]
        parts.append(_text(x(row.most) + 9, middle + 4, f"{number(row.value)} – {number(row.most)}", row.kind))
    return _document(parts, TOP + ROW * len(rows) + 40)


def lines(title: str, unit: str, across: str, marks: Sequence[str], series: Sequence[Line]) -> str:
    """Lines over marks at equal distances; each is named at its end."""
    bottom = TOP + 260
    left, right = 70, WIDTH - 150
    ticks = _ticks(max(max(line.points) for line in series))

    def x(n: int) -> float:
        return left + (right - left) * n / max(len(marks) - 1, 1)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * value / ticks[-1]

    parts = [_text(16, 24, title, "title"), _text(16, 43, unit, "soft")]
    for tick in ticks:
        parts.append(_stroke(left, y(tick), right, y(tick), "grid"))
        parts.append(_text(left - 8, y(tick) + 4, number(tick) if tick else "0", "soft", "end"))
    parts += [_text(x(n), bottom + 18, mark, "soft", "middle") for n, mark in enumerate(marks)]
    parts.append(_text((left + right) / 2, bottom + 38, across, "soft", "middle"))
    heights = _apart([y(line.points[-1]) for line in series], bottom)
    for n, (line, height) in enumerate(zip(series, heights, strict=True)):
        colour, kind = _COLOURS[n % len(_COLOURS)], "ours" if n == 0 else ""
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(line.points))
        parts.append(f'<polyline class="line {kind}" stroke="{colour}" points="{path}"/>')
        for at, value in enumerate(line.points):
            parts.append(f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>')
        parts.append(_box(right + 10, height - 5, 8, 8, "", colour))
        parts.append(_text(right + 23, height + 4, line.label, kind))
    return _document(parts, bottom + 52)


def _frame(title: str, unit: str, ticks: Sequence[float], x: Callable[[float], float], rows: int) -> list[str]:
    bottom = TOP + ROW * rows
    parts = [_text(16, 24, title, "title")]
    for tick in ticks:
        parts.append(_stroke(x(tick), TOP - 6, x(tick), bottom + 4, "grid"))
        parts.append(_text(x(tick), bottom + 20, f"{tick:,g}", "soft", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, unit, "soft", "middle"))
    return parts


def _label(row: Bar, middle: float) -> str:
    return _text(LEFT - 10, middle + 4, row.label, row.kind, "end")


def _linear(most: float) -> Callable[[float], float]:
    return lambda value: LEFT + (WIDTH - RIGHT - LEFT) * value / most


def _logarithmic(least: float, most: float) -> Callable[[float], float]:
    span = math.log10(most / least)
    return lambda value: LEFT + (WIDTH - RIGHT - LEFT) * math.log10(max(value, least) / least) / span


def _ticks(most: float) -> list[float]:
    """From zero to at least `most`, in four to eight round steps."""
    rough = most / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * n for n in range(math.ceil(most / step) + 1)]


def _decades(least: float, most: float) -> list[float]:
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0**n for n in range(first, max(last, first + 1) + 1)]


def _apart(heights: Sequence[float], lowest: float, distance: float = 15) -> list[float]:
    """Moved as far as needed for labels not to cover one another: down, and up again from the lowest place."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=placed.__getitem__)
    above = -math.inf
    for n in order:
        placed[n] = above = max(placed[n], above + distance)
    below = lowest + distance
    for n in reversed(order):
        placed[n] = below = min(placed[n], below - distance)
    return placed


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _box(x: float, y: float, width: float, height: float, kind: str, colour: str = "") -> str:
    fill = f' fill="{colour}"' if colour else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" class="{kind}"{fill}/>'


def _dot(x: float, y: float, kind: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="dot {kind}"/>'


def _document(parts: Sequence[str], height: float) -> str:
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img">\n  <style>{_STYLE}  </style>\n  {body}\n</svg>\n'
    )
