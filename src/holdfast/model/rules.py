"""The rules of a row's life, as data: `rules.json`, read here and by the simulations in the browser.

What a row is and how it changes is decided by SQL statements. The rules say the same in a form that two languages can
run, so the simulations cannot tell another story than the database: a test replays what real workers did to real rows
through this interpreter and through the one in JavaScript. See decision 0032.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Fields = Mapping[str, int]
Term = int | str
"""A whole number, `row.FIELD` or `event.VALUE`."""
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its state, and its fields, all whole numbers. No owner, no lease: 0."""

    state: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Rule:
    """What an event does to rows in one state, if the guards hold."""

    event: str
    source: str
    target: str
    guards: tuple[str, ...]
    changes: Mapping[str, tuple[Term, ...]]


class Rules:
    """All rules, in the order in which they are tried."""

    __slots__ = ("_by_event", "events", "fields", "guards", "states", "values")

    def __init__(
        self,
        rules: Sequence[Rule],
        guards: Mapping[str, Sequence[tuple[Term, str, Term]]],
        fields: Sequence[str],
        values: Sequence[str],
        states: Sequence[str],
    ) -> None:
        self._by_event: dict[str, list[Rule]] = {}
        for rule in rules:
            self._by_event.setdefault(rule.event, []).append(rule)
        self.guards, self.fields, self.values, self.states = guards, tuple(fields), tuple(values), tuple(states)
        self.events = tuple(self._by_event)

    def absent(self) -> Row:
        """A row that is not there yet."""
        return Row("absent", dict.fromkeys(self.fields, 0))

    def rule(self, row: Row, event: str, values: Fields) -> Rule | None:
        """Return the rule that applies; None if the event does nothing to this row."""
        for rule in self._by_event[event]:
            if rule.source == row.state and all(self._holds(guard, row, values) for guard in rule.guards):
                return rule
        return None

    def apply(self, row: Row, event: str, values: Fields) -> Row | None:
        """Return the row after the event; None if the event does nothing to this row."""
        rule = self.rule(row, event, values)
        if rule is None:
            return None
        changed = {name: sum(_value(term, row, values) for term in terms) for name, terms in rule.changes.items()}
        return Row(rule.target, {**row.fields, **changed})

    def _holds(self, guard: str, row: Row, values: Fields) -> bool:
        return all(
            _COMPARISONS[sign](_value(left, row, values), _value(right, row, values))
            for left, sign, right in self.guards[guard]
        )


def _value(term: Term, row: Row, values: Fields) -> int:
    if isinstance(term, int):
        return term
    of, _, name = term.partition(".")
    return row.fields[name] if of == "row" else values[name]


@cache
def rules() -> Rules:
    """The rules of rules.json."""
    told = json.loads(source())
    each = [
        Rule(
            rule["event"],
            rule["from"],
            rule["to"],
            tuple(rule["guards"]),
            {name: tuple(terms) for name, terms in rule["changes"].items()},
        )
        for rule in told["rules"]
    ]
    guards = {name: [(left, sign, right) for left, sign, right in parts] for name, parts in told["guards"].items()}
    return Rules(each, guards, told["fields"], told["values"], told["states"])


def source() -> str:
    """The text of rules.json."""
    return files("holdfast.model").joinpath("rules.json").read_text(encoding="utf-8")
