"""The story of an incident: a scripted night, told by `holdfast incidents` line by line as it happened."""

import getpass
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

from holdfast.embedded import EmbeddedPostgres

pytestmark = [pytest.mark.faults, pytest.mark.direct, pytest.mark.slow]

AWAY = 1.0
"""Seconds for which the server is away."""


def wait_noted(fleet: Fleet, what: str, times: int = 1) -> None:
    wait_until(
        lambda: bool(fleet.inbox.one("select count(*) >= %s from holdfast.journal where what = %s", times, what)), 60
    )


def test_a_night_is_told_as_it_happened(own_postgres: EmbeddedPostgres, own_fleet: Fleet, tmp_path: Path) -> None:
    fleet, shell = own_fleet, Shell(own_fleet.inbox.url, tmp_path)
    worker = fleet.start(lease=60)
    wait_noted(fleet, "worker.started")

    # A worker is killed, with two jobs that run.
    gate = tmp_path / "gate"
    held = [fleet.inbox.enqueue("hold", gate=str(gate)) for _ in range(2)]
    for job in held:
        fleet.wait_seen(job, "started")
    os.kill(worker.child, signal.SIGKILL)
    wait_noted(fleet, "worker.started", 2)
    gate.touch()
    fleet.inbox.wait(held)
    wait_until(lambda: not worker.isolation)

    # The server is restarted.
    own_postgres.stop()
    watch = Stopwatch()
    time.sleep(AWAY)
    late = watch.taken().seconds
    own_postgres.start()
    wait_noted(fleet, "database.away")

    # A queue is paused and resumed.
    assert shell("queue", "pause", "mail", "--yes").code == 0
    assert shell("queue", "resume", "mail").code == 0

    # A job takes its process down.
    fleet.inbox.wait(fleet.inbox.enqueue("poison", max_attempts=1), "dead_letter")
    wait_noted(fleet, "worker.started", 3)
    assert worker.drain() == 0

    me = re.escape(f"{getpass.getuser()}@{socket.gethostname()}")
    script = [
        rf"{me} migrated the schema to version \d+",
        r"worker (?P<first>\S+) started",
        r"worker (?P=first) died \(signal SIGKILL\); it held 2 jobs",
        r"2 jobs of (?P=first) had started: 2 retried",
        r"worker (?P<second>\S+) started",
        r"database away for (?P<away>[\d.]+) s, seen by \d",
        rf"{me} paused mail until \d\d:\d\d:\d\d",
        r"worker (?P=second) died \(signal SIGKILL\); it held 1 job",
        r"1 job of (?P=second) had started: 1 dead",
        r"worker (?P<third>\S+) started",
        r"worker (?P=third) drained",
    ]
    answer = shell("incidents", "--since", "1h")
    assert answer.code == 0, answer.all
    said = answer.out.splitlines()
    days = [line for line in said if re.fullmatch(r"\d{4}-\d\d-\d\d, times in UTC", line)]
    lines = [line for line in said if line and line not in days]
    assert said[0] == days[0]
    told = re.fullmatch("\n".join(rf"\d\d:\d\d:\d\d  {line}" for line in script), "\n".join(lines))
    assert told, answer.out
    assert AWAY * 0.9 - late < float(told["away"]) < 60  # from when somebody noticed it
    if len(days) == 1:  # it was not midnight
        times = [line[:8] for line in lines]
        assert times == sorted(times)
    assert len({told["first"], told["second"], told["third"]}) == 3
    incidents = shell("incidents", "--around", lines[0][:5], "--json").json
    assert [each["text"] for each in incidents] == [line[10:] for line in lines]
