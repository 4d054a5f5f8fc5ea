"""What is wrong with the plans that were seen, by the contract."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.plans.contract import HOT, LARGE, NESTED, Expected
from tests.support.plans import Plan, Seen, observer

from holdfast.db.statements import statement

TINY = 20.0
"""Planner's cost up to which a table, a page or two, may be read from end to end if no planner settings forbid it."""
PARTITION = r"archive_(\d{8}(_\d+d|_rest)?|default)"


async def complaints(
    url: str, *, contract: Mapping[str, Expected] = HOT, changed: Mapping[str, str] | None = None
) -> list[str]:
    """Of every statement in the contract, as plans made for their arguments and as generic ones.

    Each kind is seen in sessions of its own, so that no plan is from before. `changed` has other texts of statements.
    """
    found: list[str] = []
    for generic in (False, True):
        for worker in (True, False):
            async with observer(url, worker=worker, generic=generic) as session:
                for name, expected in contract.items():
                    if expected.worker != worker:
                        continue
                    sql = (changed or {}).get(name) or text(name)
                    seen = await session.watch(sql, expected.runs, expected.before)
                    kind = "generic" if generic else "custom"
                    found += [f"{kind} plan of {complaint}" for complaint in judge(name, sql, expected, seen)]
    return list(dict.fromkeys(found))


def text(name: str) -> str:
    room, _, file = name.partition("/")
    return statement(room, file, "holdfast")


def judge(name: str, sql: str, expected: Expected, seen: list[Seen]) -> Iterator[str]:
    """What is wrong with a statement and with those that it ran inside functions."""
    own = [one for one in seen if one.text.strip() == sql.strip()]
    if not own:
        yield f"{name}: was not seen"
    for one in own:
        yield from (f"{name}: {complaint}" for complaint in judge_plan(one.plan, expected, expected.worker))
    met = set()
    for one in seen:
        words = next((words for words in NESTED if words in one.text), None)
        if one in own or not any(_table(node) in LARGE for node in _scans(one.plan)):
            continue
        if words is None:
            yield f"{name}: runs a statement that is not in the contract: {' '.join(one.text.split())[:100]}"
        else:
            met.add(words)
            inner = judge_plan(one.plan, NESTED[words], expected.worker)
            yield from (f"{name}, {words!r}: {complaint}" for complaint in inner)
    for words in sorted(set(expected.functions) - met):
        yield f"{name}: did not run {words!r}"


def judge_plan(plan: Plan, expected: Expected, pinned: bool) -> Iterator[str]:
    read = set()
    tiny = False
    for node in _scans(plan):
        if not pinned and node["Node Type"] == "Seq Scan" and node["Total Cost"] <= TINY:
            tiny = True
            continue
        index = _index(node)
        named = index in expected.indexes
        if _table(node) in LARGE and not named:
            yield f"reads {_table(node)} by {index}"
        if named:
            read.add(index)
            condition = re.sub(r"\w+ IS NOT NULL", "", node.get("Index Cond", ""))
            bound = {*re.findall(r"\w+", condition), *re.sub(" >= ", ">= ", condition).replace("(", " ").split()}
            if unbound := [column for column in expected.indexes[index].split() if column not in bound]:
                yield f"reads {index} without a bound on {', '.join(unbound)}"
    for index in sorted(expected.indexes.keys() - read) if not tiny else ():
        yield f"does not use {index}"
    for node in plan.nodes():
        kind = node["Node Type"]
        gathers = ("Sort" in kind and not expected.sorts) or kind in (
            "Hash Join",
            "Merge Join",
            "Materialize",
            "Gather",
        )
        if gathers and any(_table(scan) in LARGE for scan in _scans(Plan(node))):
            yield f"has a {kind} over {', '.join(sorted({_index(scan) for scan in _scans(Plan(node))}))}"
    if expected.follows_its_ids and (order := _orders(plan)) != {("Function Scan", "inbox_pkey")}:
        yield f"joins in the order {sorted(order)}"


def _scans(plan: Plan) -> Iterator[dict[str, Any]]:
    for node in plan.nodes():
        if node["Node Type"] == "Bitmap Heap Scan" and node["Plans"][0]["Node Type"] == "Bitmap Index Scan":
            yield {**node["Plans"][0], "Relation Name": node["Relation Name"]}
        elif "Relation Name" in node and "Scan" in node["Node Type"]:
            yield node


def _table(node: dict[str, Any]) -> str:
    """Partitions go by the name of their table."""
    return re.sub(rf"^{PARTITION}$", "archive", node["Relation Name"])


def _index(node: dict[str, Any]) -> str:
    """Its index, a partition's by the name of its table's; else how it is read."""
    return re.sub(rf"^{PARTITION}_id_idx$", "idx_archive_id", node.get("Index Name") or node["Node Type"])


def _orders(plan: Plan) -> set[tuple[str, ...]]:
    """Of the joins with the given ids: what is on the outside, what on the inside."""
    return {
        tuple(child.get("Index Name", child["Node Type"]) for child in node["Plans"])
        for node in plan.nodes()
        if "Join Type" in node and any(child["Node Type"] == "Function Scan" for child in node["Plans"])
    }
