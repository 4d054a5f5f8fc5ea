"""Is the server set up so that what it has acknowledged survives, and that its tables are vacuumed?"""

from __future__ import annotations

from ..check import Check, Found, Patient

UNSAFE = {
    "fsync": "a crash of the server loses acknowledged work, and may ruin the database",
    "synchronous_commit": "a crash of the server loses acknowledged work",
    "full_page_writes": "a crash of the server may ruin pages",
    "autovacuum": "dead rows are never removed, and tables grow without limit",
    "track_counts": "autovacuum does not know when to run",
}


async def look(patient: Patient) -> Found:
    row = await patient.row("settings", patient.database.schema)
    off = [name for name in UNSAFE if row[name] == "off"]
    if off:
        name = off[0]
        more = f"; also off: {', '.join(off[1:])}" if off[1:] else ""
        return Found(
            "fail", f"{name} is off: {UNSAFE[name]}{more}", float(len(off)), "settings",
            _remedy(name, name in row["commanded"], patient.role),
        )  # fmt: skip
    if row["unvacuumed"]:
        table = f"{patient.database.schema}.{row['unvacuumed'][0]}"
        return Found(
            "fail", f"autovacuum is off for {table}: its dead rows are never removed", float(len(row["unvacuumed"])),
            "tables", f"alter table {table} reset (autovacuum_enabled)",
        )  # fmt: skip
    return Found("ok", "fsync, synchronous_commit, full_page_writes and autovacuum are on")


def _remedy(name: str, commanded: bool, role: str) -> str:
    if name == "synchronous_commit":
        return f"alter role {role} set synchronous_commit = on"
    if commanded:
        return f"take {name} off the command line of the server, and restart it: alter system has no effect there"
    return f"alter system set {name} = on; select pg_reload_conf()"


CHECK = Check("settings", "unsafe-settings", look)
