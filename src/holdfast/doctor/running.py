"""Run the checks, one after the other, on one connection."""

from __future__ import annotations

from collections.abc import Collection

import asyncpg

from ..db.database import Connection, Database, in_one_line
from ..errors import HoldfastError, InvalidInput
from ..model.finding import Finding
from .check import MONITOR, Check, Found, Patient
from .checks import CHECKS

LONGEST = "5s"
"""For one statement of a check."""
SAFE = (
    f"set local search_path = pg_catalog, pg_temp; set local statement_timeout = '{LONGEST}'; "
    "set local enable_seqscan = off"  # before the first analyze, the planner would read the whole inbox
)


async def examine(database: Database, only: Collection[str] = ()) -> list[Finding]:
    """Run all checks, or those with these names; return what each found."""
    if unknown := sorted(set(only) - {check.name for check in CHECKS}):
        known = ", ".join(check.name for check in CHECKS)
        raise InvalidInput("checks", f"there is no check {unknown[0]!r}; expected one of {known}")
    connection = await database.connect("doctor")
    try:
        patient = await _patient(database, connection)
        return [await _run(check, patient) for check in CHECKS if not only or check.name in only]
    finally:
        await connection.close(timeout=5)


async def _patient(database: Database, connection: Connection) -> Patient:
    row = await connection.fetchrow(database.sql("doctor", "patient"))
    assert row is not None
    # A pooler reports its own process ids.
    pooled = database.pooler or row["pid"] != connection.get_server_pid()
    return Patient(database, connection, row["role"], row["sees_all"], pooled)


async def _run(check: Check, patient: Patient) -> Finding:
    try:
        async with patient.connection.transaction(readonly=True):
            await patient.connection.execute(SAFE)
            found = await check.look(patient)
    except asyncpg.InsufficientPrivilegeError as error:
        found = Found(
            "unseen", f"the role {patient.role} may not see it: {error.message}", remedy=_grant(patient)
        )  # fmt: skip
    except (asyncpg.PostgresError, HoldfastError, TimeoutError) as error:
        if patient.connection.is_closed():
            raise
        found = Found("unseen", f"it could not be checked: {in_one_line(error)}")
    if check.needs_monitor and not patient.sees_all and found.level == "ok":
        found = Found(
            "unseen",
            f"{found.sentence}, as far as the role {patient.role} can see; sessions of other roles are hidden from it",
            found.figure, found.unit, _grant(patient),
        )  # fmt: skip
    return Finding(check.name, found.level, found.sentence, found.figure, found.unit, found.remedy, check.page)


def _grant(patient: Patient) -> str:
    return MONITOR.format(role=patient.role)
