"""Are the indexes those that the migrations made?"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ...db.statements import in_schema
from ..check import Check, Found, Patient


@cache
def golden() -> dict[str, str]:
    """The definition of each index, as a database has it that was migrated to this release."""
    text = files("holdfast").joinpath("doctor", "checks", "indexes.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: definition for name, _, definition in (line.partition(": ") for line in lines)}


async def look(patient: Patient) -> Found:
    rows = await patient.rows("indexes", patient.database.schema)
    found = {row["name"]: row for row in rows}
    expected = golden()
    missing = sorted(expected.keys() - found.keys())
    changed = sorted(
        name for name, row in found.items() if name in expected and row["definition"] != expected[name]
    )  # fmt: skip
    invalid = sorted(row["name"] for row in rows if not row["valid"])
    own = {row["table_name"] for name, row in found.items() if name in expected}  # the schema may hold others' tables
    added = sorted(name for name in found.keys() - expected.keys() if found[name]["table_name"] in own)
    bad = [f"missing {n}" for n in missing] + [f"invalid {n}" for n in invalid] + [f"changed {n}" for n in changed]
    if bad:
        return Found(
            "fail", f"indexes are not as they should be: {', '.join(bad)}", float(len(bad)), "indexes",
            _remedy(patient.database.schema, missing, invalid, changed),
        )  # fmt: skip
    if added:
        where = ", ".join(f"{name} on {found[name]['table_name']}" for name in added)
        return Found(
            "warn",
            f"indexes that Holdfast did not make: {where}. Each costs every write, and may make the planner "
            "choose a worse plan",
            float(len(added)), "indexes",
            f"drop them if nobody needs them: drop index concurrently {patient.database.schema}.{added[0]}",
        )  # fmt: skip
    return Found("ok", f"all {len(expected)} indexes are there and valid", float(len(expected)), "indexes")


def _remedy(schema: str, missing: list[str], invalid: list[str], changed: list[str]) -> str:
    if missing:
        return f"make it again: {in_schema(golden()[missing[0]], schema).replace('INDEX', 'INDEX CONCURRENTLY', 1)}"
    if changed:
        return f"drop it, and make it again: {in_schema(golden()[changed[0]], schema)}"
    return f"reindex index concurrently {schema}.{invalid[0]}"


CHECK = Check("indexes", "indexes", look)
