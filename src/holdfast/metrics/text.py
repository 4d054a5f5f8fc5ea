"""Prometheus' text format, version 0.0.4, which every scraper of OpenMetrics and Prometheus reads.

Written by hand: it is a few lines, and a page of 256 pairs takes a fraction of what `prometheus_client` takes (decision
0033). A supervisor writes the page on the loop that also renews leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from ..model.numbers import BOUNDS, Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "holdfast_"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_EDGES: Final = (*(f"{bound:.12g}" for bound in BOUNDS), "+Inf")

Labels = Sequence[tuple[str, str]]


def labels(pairs: Labels) -> str:
    """Return the labels of a series, as they stand between braces."""
    return ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs])


def family(name: str, kind: str, help: str, series: Iterable[tuple[Labels, float]]) -> list[str]:
    """Return the lines of a counter or gauge; none, if it has no series."""
    name = PREFIX + name
    lines = [f"{name}{{{labels(pairs)}}} {value:.12g}" if pairs else f"{name} {value:.12g}" for pairs, value in series]
    return [*_head(name, kind, help), *lines] if lines else []


def histograms(name: str, help: str, series: Iterable[tuple[Labels, Histogram]]) -> list[str]:
    """Return the lines of a histogram; none, if it has no series."""
    name = PREFIX + name
    lines: list[str] = []
    for pairs, histogram in series:
        about = labels(pairs)
        below = list(accumulate(histogram.counts))
        lines += [f'{name}_bucket{{{about},le="{edge}"}} {count}' for edge, count in zip(_EDGES, below, strict=True)]
        lines += [f"{name}_sum{{{about}}} {histogram.sum:.12g}", f"{name}_count{{{about}}} {below[-1]}"]
    return [*_head(name, "histogram", help), *lines] if lines else []


def _head(name: str, kind: str, help: str) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]


def page(*families: list[str]) -> bytes:
    """Return the families as one page."""
    return "\n".join([line for lines in families for line in lines] + [""]).encode()
