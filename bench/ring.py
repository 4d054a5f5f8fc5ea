"""The ring: how even the shares are, and what moves when a worker joins; against other ways to place things on it."""

from __future__ import annotations

import hashlib
import random
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from statistics import mean

from holdfast.model.keys import BUCKETS
from holdfast.model.ring import POINTS, Ring

from .figures import Results, at_most
from .ground import Ground

FLEETS = 300
EVEN = [bucket << 22 for bucket in range(BUCKETS)]


async def run(ground: Ground, results: Results, full: bool) -> None:
    sets = 4 if full else 2
    for size, average, worst in ((4, 1.15, 1.35), (8, 1.2, 1.5)):
        for name, share in _WAYS.items():
            ours = name == "ring"
            largest = [[share(fleet) * size / BUCKETS for fleet in _fleets(size, seed)] for seed in range(sets)]
            title = f"{size} workers, {name}: largest share ÷ mean"
            results.add("ring", title, "", [mean(each) for each in largest], at_most(average) if ours else None)
            results.add("ring", f"{title}, worst", "", [max(map(max, largest))], at_most(worst) if ours else None)
    for size in (3, 4, 7, 8):
        moved = [_moved(fleet) * (size + 1) for fleet in _fleets(size + 1, size)]
        modulo = sum(n % size != n % (size + 1) for n in range(BUCKETS)) / BUCKETS
        results.add("ring", f"{size} → {size + 1} workers: moved ÷ fair share", "", moved)
        results.add("ring", f"{size} → {size + 1} workers, hash % N: moved", "", [modulo])
    results.add("ring", "one ring of 8 workers", "ms", [_cost(fleet) for fleet in _fleets(8, 8)])


def _fleets(size: int, seed: int) -> list[list[str]]:
    dice = random.Random(f"{size}/{seed}")
    return [[f"host-{dice.getrandbits(32):08x}-{n}" for n in range(size)] for _ in range(FLEETS)]


def _moved(fleet: list[str]) -> float:
    before, after = Ring(fleet[:-1]), Ring(fleet)
    return sum(before.owner(n) != after.owner(n) for n in range(BUCKETS)) / BUCKETS


def _cost(fleet: list[str]) -> float:
    began = time.perf_counter()
    Ring(fleet)
    return (time.perf_counter() - began) * 1000


def _other(hashed: Callable[[str], int], places: list[int]) -> Callable[[list[str]], int]:
    """The largest share with other points and places."""

    def largest(fleet: list[str]) -> int:
        circle = sorted((hashed(f"{member}/{n}"), member) for member in fleet for n in range(POINTS))
        points = [point for point, _ in circle]
        return max(Counter(circle[bisect_left(points, place) % len(circle)][1] for place in places).values())

    return largest


def _sha(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _fnv(text: str) -> int:
    """FNV-1a, 32 bits."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def _mixed(text: str) -> int:
    """The same with murmur's finaliser."""
    value = _fnv(text)
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


_WAYS: dict[str, Callable[[list[str]], int]] = {
    "ring": lambda fleet: max(Ring(fleet).shares().values()),
    "sha256 points, even buckets": _other(_sha, EVEN),
    "sha256 points, hashed buckets": _other(_sha, [_sha(f"bucket/{n}") for n in range(BUCKETS)]),
    "FNV-1a with a finaliser, hashed buckets": _other(_mixed, [_mixed(f"bucket/{n}") for n in range(BUCKETS)]),
    "FNV-1a, hashed buckets": _other(_fnv, [_fnv(f"bucket/{n}") for n in range(BUCKETS)]),
}
