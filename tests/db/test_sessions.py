"""What every session of ours asks of the server, so that nobody who is gone or silent keeps locks."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from tests.support.databases import Server
from tests.support.pooler import database_at
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Inbox

from holdfast.db.database import Database, end_if_idle

KEPT = "select name, setting from pg_settings where name like 'tcp_%' or name like 'idle_in_transaction%'"

PRODUCER = """
import asyncio
from holdfast import Holdfast, calls
from holdfast.db import database

calls.COMMAND_TIMEOUT = 1
database.SESSION["idle_in_transaction_session_timeout"] = "1000"
hf = Holdfast()
note = hf.task(name="note")(lambda: None)
asyncio.run(note.enqueue_many([{}], idempotency_keys=["k"]))
"""


@pytest.mark.direct
@pytest.mark.parametrize("planner", [False, True], ids=["calls", "worker"])
async def test_they_are_ended_when_their_host_is_gone_or_they_idle(migrated_url: str, planner: bool) -> None:
    connection = await database_at(migrated_url).connect("test", planner=planner)
    found = {row[0]: row[1] for row in await connection.fetch(KEPT)}
    await connection.close()
    assert found == {
        "tcp_keepalives_idle": "15",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "30000",
        "idle_in_transaction_session_timeout": "60000",
    }


@pytest.mark.direct
async def test_a_unix_domain_socket_has_no_host_that_could_be_gone(postgres: Server, migrated_url: str) -> None:
    assert postgres.embedded is not None, "needs the embedded server's socket"
    parts = urlsplit(migrated_url)
    place = urlencode({"host": postgres.embedded.socket_folder, "port": postgres.embedded.port})
    url = f"postgresql://{parts.username}:{parts.password}@{parts.path}?{place}"
    connection = await Database(url).connect("test")
    assert await connection.fetchval("show tcp_keepalives_idle") == "0"
    assert await connection.fetchval("show idle_in_transaction_session_timeout") == "1min"
    await connection.close()


def test_no_limit_is_better_than_one_that_is_too_short() -> None:
    assert end_if_idle(1.5).endswith("= 1500")
    assert end_if_idle(30 * 86400).endswith("= 0")  # the server takes no more than 24 days


def test_a_producer_that_was_stopped_in_its_transaction_keeps_no_key(inbox: Inbox, tmp_path: Path) -> None:
    marker = tmp_path / "stopped"
    probes = {"HOLDFAST_PROBES": f"enqueue.before_commit=stop@{marker}"}
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": inbox.url, **probes}
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER], cwd=ROOT, env=variables)
    try:
        wait_until(marker.exists, 60)
        inbox.rows("set lock_timeout = '20s'; select holdfast.enqueue('note', idempotency_key => 'k')")
        assert inbox.one("select count(*) from holdfast.inbox") == 1
    finally:
        producer.send_signal(signal.SIGKILL)
        producer.wait(30)
