"""Take turns between the cases, so that a noisy machine affects all of them alike, and show progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def turns(repeats: int, cases: Iterable[T]) -> Iterator[T]:
    """Each case once, then each once more, `repeats` times."""
    listed = list(cases)
    for turn in range(repeats):
        for case in listed:
            say(f"{turn + 1} of {repeats}" + (f": {case}" if len(listed) > 1 else ""))
            yield case
    _erase()


def say(words: str) -> None:
    """A line of progress: over the last one on a terminal, else on its own."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K    … {words}", end="", flush=True)
    else:
        print(f"    … {words}", flush=True)


def _erase() -> None:
    if sys.stdout.isatty():
        print("\r\x1b[K", end="", flush=True)
