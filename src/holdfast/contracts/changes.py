"""What has changed between two exports, and which of the changes are incompatible.

Consumers of a *published* type were written for its old schema. So every value of the new one must fit the old one, and
no property that they may read is removed. Producers of a *consumed* type write values of its old schema, so every value
of the old one must fit the new one. There, a new optional property is compatible: it is assumed that producers who do
not know it do not send something else under its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .asyncapi import Contract, Role, Unreadable, contracts
from .inclusion import Gap, gaps
from .schemas import shown

Rule = Literal[
    "version-removed", "version-added", "type-changed",
    "property-removed", "made-optional", "type-widened", "enum-widened", "constraint-loosened", "opened",
    "property-added", "made-required", "type-narrowed", "enum-narrowed", "constraint-tightened", "closed",
    "not-comparable",
]  # fmt: skip


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two exports."""

    role: Role
    source: str | None
    type: str
    version: int
    path: str | None
    """Where in the data: `data.lines[].price`; None: the whole version."""
    rule: Rule
    message: str
    """What is different."""

    @property
    def line(self) -> str:
        origin = f" from {self.source}" if self.source is not None else ""
        where = f" {self.path}" if self.path is not None else ""
        return f"{self.role} {self.type} version {self.version}{origin}:{where} {self.message}"


class Comparison(msgspec.Struct, frozen=True):
    """All differences between two exports."""

    breaking: Sequence[Change]
    compatible: Sequence[Change]
    advice: Sequence[str]
    """What to do about those that break something."""


def compare(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two AsyncAPI documents, as `asyncapi.document` or `asyncapi.read` returns them."""
    before, after = _by_name(contracts(old)), _by_name(contracts(new))
    breaking: list[Change] = []
    compatible: list[Change] = []
    for key, was in before.items():
        if key not in after:
            breaking.append(_change(was, None, "version-removed", "was removed"))
            continue
        try:
            found, fine = _compared(was, old, after[key], new)
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # somebody has edited the file
            raise Unreadable(f"the schema of {was.called} is not valid JSON Schema: {error}") from None
        breaking += found
        compatible += fine
    compatible += [_change(each, None, "version-added", "is new") for key, each in after.items() if key not in before]
    return Comparison(breaking, compatible, list(_advice(breaking, [*before.values(), *after.values()])))


def _by_name(found: Iterable[Contract]) -> dict[tuple[Any, ...], Contract]:
    return {(each.role, each.source, each.type, each.version): each for each in found}


def _compared(was: Contract, old: Any, now: Contract, new: Any) -> tuple[list[Change], list[Change]]:
    """The changes of one contract: those that break others, and the rest."""
    published = now.role == "published"
    wider = [_widened(now, gap) for gap in gaps(now.schema, new, was.schema, old, removals=True)]
    narrower = gaps(was.schema, old, now.schema, new, removals=False)
    serious = [_narrowed(now, gap) for gap in narrower if gap.serious]
    added = [_narrowed(now, gap) for gap in narrower if not gap.serious]
    breaking, others = (wider, serious) if published else (serious, wider)
    # A type that was changed is a gap in both directions.
    places = {change.path for change in breaking}
    return breaking, [change for change in [*others, *added] if change.path not in places]


def _widened(now: Contract, gap: Gap) -> Change:
    """There are new values: the inner schema of the gap is the new one."""
    new, old = gap.inner, gap.outer
    match gap.kind:
        case "property":
            return _change(now, gap, "property-removed", "was removed")
        case "required":
            return _change(now, gap, "made-optional", "was required and is optional now")
        case "type" if set(new) & set(old) or new == ("any type",) or (old == ("integer",) and "number" in new):
            return _change(now, gap, "type-widened", f"was {_either(old)} and can be {_either(new)} now")
        case "type":
            return _change(now, gap, "type-changed", f"was {_either(old)} and is {_either(new)} now")
        case "enum" if new is None:
            return _change(now, gap, "enum-widened", f"had only the values {old}, and can have others now")
        case "enum":
            return _change(now, gap, "enum-widened", f"can have values that it did not have: {new}")
        case "constraint":
            return _change(now, gap, "constraint-loosened", _about(gap.word, old, new))
        case "closed" if gap.path.endswith(".*"):
            return _change(now, gap, "opened", "other properties are allowed now, and were not")
        case "closed":
            return _change(now, gap, "opened", "is new, and no other properties were allowed")
        case "opaque":
            return _unclear(now, gap)


def _narrowed(now: Contract, gap: Gap) -> Change:
    """Some values are gone: the inner schema of the gap is the old one."""
    old, new = gap.inner, gap.outer
    match gap.kind:
        case "property":
            return _change(now, gap, "property-added", "was added")
        case "required":
            said = "was optional and is required now" if gap.known else "is new and required"
            return _change(now, gap, "made-required", said)
        case "type" if set(new) & set(old) or old == ("any type",) or (new == ("integer",) and "number" in old):
            return _change(now, gap, "type-narrowed", f"was {_either(old)} and is only {_either(new)} now")
        case "type":
            return _change(now, gap, "type-changed", f"was {_either(old)} and is {_either(new)} now")
        case "enum" if old is None:
            return _change(now, gap, "enum-narrowed", f"has only the values {new} now")
        case "enum":
            return _change(now, gap, "enum-narrowed", f"no longer has the values {old}")
        case "constraint":
            return _change(now, gap, "constraint-tightened", _about(gap.word, new=new, old=old))
        case "closed" if gap.path.endswith(".*"):
            return _change(now, gap, "closed", "other properties were allowed, and are not now")
        case "closed":
            return _change(now, gap, "closed", "was removed, and other properties are not allowed")
        case "opaque":
            return _unclear(now, gap)


def _unclear(now: Contract, gap: Gap) -> Change:
    return _change(now, gap, "not-comparable", f"{gap.word} has changed in a way that this check cannot judge")


def _change(about: Contract, gap: Gap | None, rule: Rule, message: str) -> Change:
    return Change(
        role=about.role,
        source=about.source,
        type=about.type,
        version=about.version,
        path=gap.path if gap is not None else None,
        rule=rule,
        message=message,
    )


def _about(word: str, old: Any, new: Any) -> str:
    def said(value: Any) -> str:
        return "not set" if value is None else shown(value) if not isinstance(value, str) else value

    return f"{word} was {said(old)} and is {said(new)} now"


def _either(types: Sequence[str]) -> str:
    return " or ".join(types)


def _advice(breaking: Sequence[Change], known: Sequence[Contract]) -> Iterable[str]:
    """What to do, once for each type."""
    newest: Mapping[tuple[str, str], int] = {}
    for each in known:
        newest = {**newest, (each.role, each.type): max(each.version, newest.get((each.role, each.type), 0))}
    said = dict.fromkeys(
        (change.role, change.type, change.version, change.rule == "version-removed") for change in breaking
    )
    for role, type, version, gone in said:
        match role, gone:
            case "published", False:
                yield (
                    f"{type}: leave version {version} as it was, and declare the change as a new version: "
                    f'@hf.event("{type}", version={newest[role, type] + 1})'
                )
            case "published", True:
                yield f"{type}: declare version {version} again while somebody consumes it; after that, export anew"
            case _, False:
                yield (
                    f"{type}: accept what version {version} accepted, for example with a default; take the change from "
                    "a new version of the producer"
                )
            case _:
                yield (
                    f"{type}: keep a handler for version {version} while such events arrive, or they are parked; after "
                    "that, export anew"
                )
