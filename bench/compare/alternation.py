"""The order of turns: each pair back to back, and the side that begins changes from pair to pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class Pair(Generic[Case]):
    turn: int
    """From 1 on."""
    case: Case
    this_first: bool


def pairs(turns: int, cases: Iterable[Case]) -> Iterator[Pair[Case]]:
    """Each case once in every turn. A drift of the machine favours one side in a pair and the other in the next."""
    listed = list(cases)
    for turn in range(1, turns + 1):
        for case in listed:
            yield Pair(turn, case, turn % 2 == 1)
