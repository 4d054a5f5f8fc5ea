"""Do schema, workers and this program fit together?"""

from __future__ import annotations

from ...model.words import plural
from ...schema import migrate
from ...version import __version__
from ..check import Check, Found, Patient


async def look(patient: Patient) -> Found:
    schema, ours = patient.database.schema, migrate.newest()
    found = await migrate.version_of(patient.connection, schema)
    if found < ours:
        return Found(
            "fail", f"the schema {schema} is at version {found}; this release needs {ours}", float(found), "",
            migrate.command(schema),
        )  # fmt: skip
    row = await patient.row("versions", ours)
    if row["refused"] is not None:
        return Found(
            "fail",
            f"the schema {schema} is at version {found}; this release works with {ours}, and migration "
            f"{row['refused']} is not compatible with it",
            float(found), "", "install a newer holdfast",
        )  # fmt: skip
    if "" in row["releases"]:
        return Found(
            "fail", "a live worker does not report its release: it is very old, or not a Holdfast worker", float(found),
            "", "find it with holdfast workers list --json, and stop or replace it",
        )  # fmt: skip
    mixed = sorted({*row["releases"], __version__})
    if len(mixed) > 1:
        return Found(
            "warn", f"several releases are in use: {', '.join(mixed)} (this program: {__version__})",
            float(len(mixed)), "releases", "finish the deploy: replace the older workers",
        )  # fmt: skip
    workers = plural(row["workers"], "live worker")
    return Found("ok", f"the schema is at version {found}, and {workers} and this program are {__version__}",
                 float(found), "")  # fmt: skip


CHECK = Check("versions", "versions", look)
