"""What a fleet costs that has nothing to do."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.databases import SETTINGS, new_server
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, running_fleet

from holdfast.db.database import Database
from holdfast.schema.migrate import migrate

pytestmark = pytest.mark.direct  # LISTEN itself: there is none behind a pooler

WORKERS = 8
PRODUCTION = ("--lease", "90s", "--housekeeping", "10s", "--poll", "1s")
SETTLED = """
    select count(*) = %s from holdfast.workers where status = 'alive' and (metadata -> 'counters' ->> 'listening')::bool
"""
STATEMENTS = """
    select query, calls from pg_stat_statements s
    join pg_database d on d.oid = s.dbid and d.datname = current_database()
    where query not like '%%pg_stat_statements%%'
"""


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on a server that counts every statement."""
    settings = {**SETTINGS, "shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
    with new_server(settings) as server:
        asyncio.run(migrate(Database(server.url)))
        with running_fleet(server.url, tmp_path) as fleet:
            fleet.inbox.prepare()
            fleet.inbox.rows("create extension pg_stat_statements")
            yield fleet


@pytest.mark.slow
def test_eight_idle_workers_make_fewer_than_twenty_statements_a_second(counted: Fleet) -> None:
    for _ in range(WORKERS):
        counted.launch(options=PRODUCTION)
    wait_until(lambda: bool(counted.inbox.one(SETTLED, WORKERS)), 110)
    threading.Event().wait(4)  # the pauses between two looks grow to their longest in three seconds
    seconds = 20.0  # two rounds of the chores
    before = statements(counted)
    began = time.monotonic()
    threading.Event().wait(seconds)
    after = statements(counted)
    lasted = time.monotonic() - began
    made = {query: after[query] - before.get(query, 0) for query in after}
    rate = sum(made.values()) / lasted
    most = sorted(made.items(), key=lambda item: -item[1])[:12]
    print(
        f"{rate:.1f} statements a second\n"
        + "\n".join(f"{calls:5} {' '.join(query.split())[:90]}" for query, calls in most)
    )
    assert sum(made.values()) >= WORKERS * lasted * 0.5, "they do poll"
    assert rate < 20


def statements(fleet: Fleet) -> dict[str, int]:
    return {row["query"]: int(row["calls"]) for row in fleet.inbox.rows(STATEMENTS)}
