"""The rules mean the same in Python and in JavaScript; and so do the ring and the hash of keys."""

import hashlib
import os
from collections.abc import Callable

from tests.support.node import ask, needs_node

from holdfast.model.keys import bucket
from holdfast.model.ring import Ring
from holdfast.model.rules import Row, Rules, rules
from holdfast.simulations import STATIC, rules_module


def mulberry32(seed: int) -> Callable[[int], int]:
    """A whole number below a limit, each time: as random.js."""
    state = seed

    def below(limit: int) -> int:
        nonlocal state
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        t = ((state ^ (state >> 15)) * (state | 1)) & 0xFFFFFFFF
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF)) & 0xFFFFFFFF
        return ((t ^ (t >> 14)) & 0xFFFFFFFF) % limit

    return below


def walk(told: Rules, seed: int, steps: int) -> tuple[str, set[str]]:
    """Random events on a few rows, many of them refused; a digest of all, and the rules that were used."""
    below = mulberry32(seed)
    digest = hashlib.sha256()
    rows = [told.absent() for _ in range(6)]
    used: set[str] = set()
    now = 0
    for n in range(steps):
        now += below(4)
        which = below(len(rows))
        event = told.events[below(len(told.events))]
        row = rows[which]
        values = {"now": now, "worker": 1 + below(3)}
        values["generation"] = row.fields["generation"] - (1 if below(4) == 0 else 0)
        values |= {"lease": 5 + below(10), "delay": below(8), "max_attempts": 1 + below(4)}
        if below(2) == 0:
            values["worker"] = row.fields["owner"]
        rule = told.rule(row, event, values)
        after = told.apply(row, event, values)
        if rule is not None:
            used.add(f"{event} {rule.source} {rule.target}")
        digest.update(f"{n} {which} {event} {'-' if after is None else line(told, after)}\n".encode())
        rows[which] = after or row
        if below(40) == 0:
            rows[which] = told.absent()
    return digest.hexdigest(), used


def line(told: Rules, row: Row) -> str:
    return " ".join([row.state, *(str(row.fields[name]) for name in told.fields)])


@needs_node
def test_a_long_walk_is_the_same_in_both_languages() -> None:
    told = rules()
    digest, used = walk(told, 9182, 40_000)
    answer = ask("walk", seed=9182, steps=40_000)
    assert answer["used"] == sorted(used)
    assert answer["digest"] == digest
    every = {f"{rule.event} {rule.source} {rule.target}" for each in told._by_event.values() for rule in each}
    assert used == every, "a walk that leaves a rule out proves nothing about it"


def test_the_module_of_the_rules_is_current() -> None:
    file = STATIC / "rules_data.js"
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        file.write_text(rules_module(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == rules_module(), "run this test with HOLDFAST_RENEW_GOLDEN=1"


def test_the_rules_name_only_what_there_is() -> None:
    told = rules()
    names = {f"row.{name}" for name in told.fields} | {f"event.{name}" for name in told.values}
    for each in told._by_event.values():
        for rule in each:
            assert {rule.source, rule.target} <= set(told.states)
            assert set(rule.guards) <= set(told.guards)
            assert set(rule.changes) <= set(told.fields)
            assert {term for terms in rule.changes.values() for term in terms if isinstance(term, str)} <= names
    compared = {term for parts in told.guards.values() for left, _, right in parts for term in (left, right)}
    assert {term for term in compared if isinstance(term, str)} <= names


def test_a_stale_hold_changes_nothing() -> None:
    told = rules()
    row = told.absent()
    for event, values in (
        ("enqueue", {"now": 0, "delay": 0, "max_attempts": 3}),
        ("claim", {"now": 1, "worker": 1, "lease": 10}),
        ("sweep", {"now": 12, "delay": 2}),
        ("claim", {"now": 14, "worker": 2, "lease": 10}),
    ):
        after = told.apply(row, event, values)
        assert after is not None, event
        row = after
    stale = {"now": 15, "worker": 1, "generation": 1, "lease": 10, "delay": 0}
    for event in ("renew", "complete", "end", "fail", "give_up", "died", "hand_back", "snooze"):
        assert told.apply(row, event, stale) is None
        assert told.apply(row, event, stale | {"worker": 2, "generation": 2}) is not None


@needs_node
def test_the_ring_is_the_same_in_both_languages() -> None:
    sets = [[], ["a"], ["web-1-17-ab", "web-1-18-cd", "wörker"], [f"host-{n}-{n * 7}-x" for n in range(12)]]
    keys = ["order:9182", "", "ключ", "x" * 200, *(f"order:{n}" for n in range(200))]
    answer = ask("ring", sets=sets, keys=keys)
    for members, owners in zip(sets, answer["owners"], strict=True):
        ring = Ring(members)
        assert owners == [ring.owner(number) for number in range(1024)]
    assert answer["buckets"] == [bucket(key) for key in keys]
