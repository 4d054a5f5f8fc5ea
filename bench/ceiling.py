"""The ceiling: pgbench runs our own claim and complete statements, as they are, and we compare our drain with that.

Every transaction claims a batch, asks which rows it got, and completes them; there is no Python, no handler, no lease
to renew, and no decoding. With one client claims and completions take turns; with two, both cores work at both. Our
worker has one connection for each, so the faster of the two is what we are held against.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from holdfast.db.database import PLANNER, Database
from holdfast.embedded.binaries import find_bin_folder
from holdfast.worker.settings import WorkerSettings

from .drain import once
from .figures import Results, at_least, ratios
from .ground import Ground, connected, fill, settle
from .turns import turns

BATCH = WorkerSettings().batch
CLIENTS = (1, 2)

CLAIM = {
    1: ":lanes", 2: ":priorities",
    3: "array['-infinity', :claimed_available_at, '-infinity', '-infinity']", 4: "array[0, :claimed_seq::bigint, 0, 0]",
    5: ":batch::bigint", 6: ":kinds", 7: ":versions", 8: ":client_id::text", 9: ":lease::float8",
    10: ":rescan::boolean", 11: ":rescan::boolean",
}  # fmt: skip
"""What stands for each parameter of claim.sql: variables, so that they are parameters for pgbench, too."""
COMPLETE = {
    1: ":ids",
    2: ":generations",
    3: ":nothing",
    4: ":nothing",
    5: ":nothing",
    6: ":client_id::text",
    7: ":nothing",
}
VARIABLES = {
    "lanes": "{default,default,default,default}", "priorities": "{0,1,2,3}",
    "claimed_available_at": "-infinity", "claimed_seq": "0",
    "batch": str(BATCH), "kinds": "{noop,stamp}", "versions": "{}", "lease": "90", "rescan": "false",
    "nothing": "{}",
}  # fmt: skip
_GOT = """
    select array_agg(id order by id) as ids, array_agg(lease_generation order by id) as generations,
           max(available_at) as claimed_available_at, max(seq) as claimed_seq
    from holdfast.inbox
    where status = 'processing' and claimed_by = :client_id::text
"""


async def run(ground: Ground, results: Results, full: bool) -> None:
    jobs = 100_000 if full else 50_000
    ours: list[float] = []
    theirs: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    for turn in turns(5 if full else 3, (*CLIENTS, "holdfast")):
        if isinstance(turn, int):
            theirs[turn].append(await _pgbench(ground, jobs, turn))
        else:
            ours.append((await once(ground, jobs)).rate)
    for clients, rates in theirs.items():
        words = f"claim and complete, {clients} client{'s' * (clients > 1)}"
        results.add("ceiling", words, "jobs/s", rates, system="pgbench", case=f"clients.{clients}")
    best = max(theirs.values(), key=lambda rates: sorted(rates)[len(rates) // 2])
    results.add("ceiling", "drain in the same turns", "jobs/s", ours, case="rate")
    results.add("ceiling", "drain ÷ pgbench at its best", "", ratios(ours, best), at_least(0.7), case="share")


def script(database: Database) -> str:
    """What pgbench runs: our statements, with its variables in place of their parameters."""
    claim = given(database.sql("inbox", "claim"), CLAIM)
    complete = given(database.sql("inbox", "complete"), COMPLETE)
    return f"{claim};\n{_GOT}\n\\gset\n{complete};\n"


def given(statement: str, values: Mapping[int, str]) -> str:
    """The statement without its comments, each $n replaced; every one must be known, and every known one be there."""
    bare = re.sub(r"--.*", "", statement).strip().rstrip(";")
    if (found := {int(n) for n in re.findall(r"\$(\d+)", bare)}) != values.keys():
        raise AssertionError(f"the statement has parameters {sorted(found)}, we give {sorted(values)}")
    return re.sub(r"\$(\d+)", lambda match: values[int(match[1])], bare)


async def _pgbench(ground: Ground, jobs: int, clients: int) -> float:
    async with ground.database() as url, connected(url) as watch:
        await fill(watch, jobs + clients * BATCH)
        await settle(watch)
        transactions = jobs // BATCH // clients
        with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as file:
            file.write(script(Database(url)))
            file.flush()
            said = await _run(url, file.name, clients, transactions)
        done = await watch.fetchval("select count(distinct id) from holdfast.archive")
        if done != transactions * clients * BATCH:
            raise AssertionError(f"pgbench was to complete {transactions * clients * BATCH} jobs, completed {done}")
        found = re.search(r"^tps = ([\d.]+)", said, re.M)
        if found is None:
            raise AssertionError(f"pgbench was expected to say its tps, said: {said}")
        return float(found[1]) * BATCH


async def _run(url: str, path: str, clients: int, transactions: int) -> str:
    parts = urlsplit(url)
    address = urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")))
    process = await asyncio.create_subprocess_exec(
        _program(), "--no-vacuum", "--protocol=prepared", f"--client={clients}", f"--jobs={clients}",
        f"--transactions={transactions}", f"--file={path}",
        *(f"--define={name}={value}" for name, value in VARIABLES.items()), address,
        env={
            **os.environ, "PGPASSWORD": unquote(parts.password or ""),
            "PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in PLANNER.items()),
        },
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        said = (await process.communicate())[0].decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise AssertionError(f"pgbench ended with {process.returncode}: {said[-2000:]}")
    return said


def _program() -> str:
    beside = find_bin_folder() / "pgbench"
    found = str(beside) if beside.is_file() else shutil.which("pgbench")
    if found is None:
        raise FileNotFoundError(
            f"pgbench was expected in {beside.parent} or on PATH; install Postgres' client programs"
        )
    return found
