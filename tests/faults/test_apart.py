"""Handlers in processes of their own (`process=True`): what they say, and what becomes of them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker

from holdfast import Holdfast

pytestmark = pytest.mark.faults

APART = "tests.apps.apart:hf"


def start(fleet: Fleet, **options: Any) -> Worker:
    return fleet.start(app=APART, **{"lease": 60, **options})


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def pid_of(fleet: Fleet, job: UUID) -> int:
    fleet.wait_seen(job, "started")
    return fleet.seen(job, "started")[-1].pid


def cancel(fleet: Fleet, job: UUID) -> None:
    async def ask() -> None:
        hf = Holdfast(fleet.inbox.url)
        try:
            await hf.cancel(job, "withdrawn")
        finally:
            await hf.close()

    asyncio.run(ask())


def test_it_runs_beside_the_worker(fleet: Fleet) -> None:
    worker = start(fleet)
    job = fleet.inbox.enqueue("where")
    fleet.inbox.wait(job)
    pid, parent = fleet.inbox.job(job)["result"]
    assert (pid != worker.child, parent) == (True, worker.child)
    again = fleet.inbox.enqueue("where")
    fleet.inbox.wait(again)
    assert fleet.inbox.job(again)["result"] == [pid, parent], "the process is used again"


ENDINGS = ["snooze", "fail", "unstorable", "undumpable", "exit", "unprintable", "iteration", "interrupt", "value"]


def test_it_says_of_an_attempt_what_a_thread_says(fleet: Fleet) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("square", {"n": 7}),
        ("square", {"n": "seven"}),
        ("square", {}),
        ("echo", {"text": "ä \ud83d\ude00 " + "x" * 500_000}),
        ("once", {}),
        *(("end", {"how": how}) for how in ENDINGS),
    ]
    pairs = [
        (fleet.inbox.enqueue(kind, max_attempts=2, **arguments),
         fleet.inbox.enqueue(f"{kind}_apart", max_attempts=2, **arguments))
        for kind, arguments in calls
    ]  # fmt: skip
    start(fleet)
    at_rest = "select count(*) = %s from holdfast.jobs where status::text in ('completed', 'failed', 'dead_letter')"
    wait_until(lambda: fleet.inbox.one(at_rest, 2 * len(pairs) - 2))  # but for those that snooze
    for (kind, arguments), (thread, process) in zip(calls, pairs, strict=True):
        assert story(fleet, process) == story(fleet, thread), (kind, str(arguments)[:80])
    assert [fleet.inbox.status(process) for _, process in pairs[:6]] == [
        "completed", "dead_letter", "dead_letter", "completed", "completed", "pending",
    ]  # fmt: skip
    assert [len(fleet.seen(process, "effect")) for _, process in pairs[4:5]] == [1]


def story(fleet: Fleet, id: UUID) -> dict[str, Any]:
    row = fleet.inbox.job(id)
    errors = [
        {
            "error": error["error"],
            "message": error["message"].replace("_apart", ""),
            "raised in": error["trace"].replace("_apart", "").strip().splitlines()[-1:],
        }
        for error in row["errors"] or []
    ]
    told = ("status", "attempts", "lease_generation", "result")
    last = (row["last_error"] or "").replace("_apart", "")
    return {**{name: row[name] for name in told}, "errors": errors, "last": last}


def test_what_it_prints_is_not_lost_when_it_ends(fleet: Fleet) -> None:
    worker = start(fleet, environment={"PYTHONUNBUFFERED": ""})
    fleet.inbox.wait(fleet.inbox.enqueue("say", words="said apart"))
    assert worker.drain() == 0
    assert "said apart" in worker.log


def test_what_it_forks_can_be_ended_and_cannot_ask_for_it(fleet: Fleet) -> None:
    start(fleet)
    job = fleet.inbox.enqueue("fork", max_attempts=1)
    fleet.inbox.wait(job)
    assert fleet.inbox.job(job)["result"] == [
        -signal.SIGTERM, "once('from afar'): call it in the handler's process, not in one that it forked",
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["SIGKILL", "exit code 3", "closed its connection", "SIGSEGV"])
def test_a_process_that_dies_takes_nothing_with_it(fleet: Fleet, how: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    companions = [fleet.inbox.enqueue(kind, gate=str(gate)) for kind in ("hold", "hold_apart")]
    worker = start(fleet)
    child = worker.child
    for companion in companions:
        fleet.wait_seen(companion, "started")
    job = fleet.inbox.enqueue("die", max_attempts=2, how=how)
    fleet.inbox.wait(job, "dead_letter")
    row = fleet.inbox.job(job)
    assert (row["attempts"], row["crashes"]) == (2, 0)
    assert [error["error"] for error in row["errors"]] == ["ProcessDied"] * 2
    assert all(how in error["message"] for error in row["errors"]), row["errors"]
    assert all(gone(seen.pid) for seen in fleet.seen(job, "started"))
    gate.touch()
    fleet.inbox.wait(companions)
    assert [fleet.inbox.job(companion)["attempts"] for companion in companions] == [1, 1]
    assert worker.child == child
    fleet.inbox.check_promises()


def test_over_its_time_it_is_killed_and_nothing_else(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    companion = fleet.inbox.enqueue("hold", gate=str(gate))
    worker = start(fleet, lease=1.5, options=["--grace", "0"])
    child = worker.child
    late = fleet.inbox.enqueue("finish_late")
    job = fleet.inbox.enqueue("spin", max_attempts=2)
    fleet.inbox.wait(job, "dead_letter")
    assert [error["error"] for error in fleet.inbox.job(job)["errors"]] == ["Timeout"] * 2
    assert all(gone(seen.pid) for seen in fleet.seen(job, "started"))
    programs = [int(seen.what.partition(":")[2]) for seen in fleet.seen(job) if seen.what.startswith("program:")]
    assert len(programs) == 2
    wait_until(lambda: all(map(gone, programs)))
    fleet.inbox.wait(late)
    assert fleet.inbox.job(late)["result"] == "finished", "told in time, it may finish"
    gate.touch()
    fleet.inbox.wait(companion)
    assert fleet.inbox.job(companion)["result"] == child == worker.child
    fleet.inbox.check_promises()


def test_cancelled_it_is_told_and_a_deaf_one_is_killed(fleet: Fleet) -> None:
    start(fleet)
    jobs = [fleet.inbox.enqueue("listen"), fleet.inbox.enqueue("hold_apart", gate="/nonexistent/gate")]
    pids = [pid_of(fleet, job) for job in jobs]
    for job in jobs:
        cancel(fleet, job)
    fleet.inbox.wait(jobs, "cancelled")
    assert [len(fleet.seen(job, "told")) for job in jobs] == [1, 0]
    assert [gone(pid) for pid in pids] == [False, True]
    assert [fleet.inbox.job(job)["attempts"] for job in jobs] == [1, 1]


def test_the_next_attempt_in_the_same_process_is_not_told(fleet: Fleet) -> None:
    start(fleet, concurrency=1)
    first = fleet.inbox.enqueue("listen")
    pid = pid_of(fleet, first)
    cancel(fleet, first)
    fleet.inbox.wait(first, "cancelled")
    second = fleet.inbox.enqueue("listen")
    assert pid_of(fleet, second) == pid
    time.sleep(0.5)
    assert not fleet.seen(second, "told")
    cancel(fleet, second)
    fleet.inbox.wait(second, "cancelled")


def test_its_lease_lost_it_is_told_and_writes_nothing(fleet: Fleet) -> None:
    start(fleet, lease=1.5)
    job = fleet.inbox.enqueue("listen")
    fleet.wait_seen(job, "started")
    fleet.inbox.rows(
        "update holdfast.inbox set lease_generation = lease_generation + 1, claimed_by = 'another',"
        " lease_expires_at = now() + interval '1 hour' where id = %s",
        job,
    )
    fleet.wait_seen(job, "told")
    fleet.inbox.wait(fleet.inbox.enqueue("quick"))
    row = fleet.inbox.job(job)
    assert (row["status"], row["claimed_by"], row["errors"]) == ("processing", "another", None)


def test_a_drain_waits_for_it_and_hands_back_what_takes_longer(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    worker = start(fleet, options=["--drain", "5"])
    short = fleet.inbox.enqueue("hold_apart", gate=str(gate))
    long = fleet.inbox.enqueue("hold_apart", gate="/nonexistent/gate")
    pid = pid_of(fleet, long)
    fleet.wait_seen(short, "started")
    worker.send(signal.SIGTERM)
    wait_until(lambda: list(fleet.inbox.workers().values()) == ["draining"])
    gate.touch()
    assert worker.wait() == 0, worker.log
    assert fleet.inbox.status(short) == "completed"
    row = fleet.inbox.job(long)
    assert (row["status"], row["attempts"], row["errors"]) == ("pending", 0, None)
    assert gone(pid)


@pytest.mark.parametrize("whole_group", [False, True], ids=["worker", "group"])
def test_signals_for_everybody_are_the_workers_business(fleet: Fleet, tmp_path: Path, whole_group: bool) -> None:
    """Ctrl-C in a terminal, and systemd, signal all processes at once."""
    gate = tmp_path / "gate"
    worker = start(fleet)
    job = fleet.inbox.enqueue("hold_apart", gate=str(gate))
    pid = pid_of(fleet, job)
    if whole_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    time.sleep(0.3)
    assert not gone(pid)
    gate.touch()
    fleet.inbox.wait(job)
    assert fleet.inbox.job(job)["attempts"] == 1


@pytest.mark.parametrize("victim", ["process", "supervisor"])
def test_it_does_not_outlive_its_worker(fleet: Fleet, tmp_path: Path, victim: str) -> None:
    gate = tmp_path / "gate"
    worker = start(fleet, lease=1.5)
    job = fleet.inbox.enqueue("hold_apart", gate=str(gate))
    pid = pid_of(fleet, job)
    os.kill(worker.pid if victim == "supervisor" else worker.child, signal.SIGKILL)
    wait_until(lambda: gone(pid))
    if victim == "supervisor":
        start(fleet, lease=1.5)
    gate.touch()
    fleet.inbox.wait(job)
    assert len(fleet.seen(job, "done")) == 1
    fleet.inbox.check_promises()


SHOP = """
from holdfast import Holdfast

hf = Holdfast()

@hf.task(process=True)
def area(side: int) -> int:
    return side * side
"""
SERVE = """
import asyncio, sys
{imports}

async def main() -> None:
    async with hf.worker(poll=0.05, drain=1):
        job = await area.enqueue(side=4)
        while (found := await hf.job(job.id)).status != "completed":
            await asyncio.sleep(0.02)
        print(found.result)
    await hf.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def serve(fleet: Fleet, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": fleet.inbox.url}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_inside_an_application(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shop.py").write_text(SHOP)
    (tmp_path / "lib" / "main.py").write_text(SERVE.format(imports="from shop import area, hf"))
    (tmp_path / "whole.py").write_text(SHOP + SERVE.format(imports=""))
    by_script = serve(fleet, tmp_path, "lib/main.py")  # found in the script's folder, which is not the current one
    assert (by_script.stdout, by_script.stderr) == ("16\n", "")
    as_module = serve(fleet, tmp_path, "-m", "whole")
    assert (as_module.stdout, as_module.stderr) == ("16\n", "")
    alone = serve(fleet, tmp_path, "whole.py")
    assert "no imported module holds this Holdfast" in alone.stderr


def test_the_program_itself_is_not_run_again_by_its_processes(fleet: Fleet, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    always = SERVE.replace('if __name__ == "__main__"', "if True")
    (shop / "tasks.py").write_text(SHOP)
    (shop / "__main__.py").write_text(always.format(imports="from shop.tasks import area, hf"))
    (tmp_path / "whole.py").write_text(SHOP + always.format(imports=""))
    program = serve(fleet, tmp_path, "-m", "shop")
    assert (program.stdout, program.stderr) == ("16\n", "")
    in_one = serve(fleet, tmp_path, "-m", "whole")
    assert in_one.stderr.strip().endswith("start it under if __name__ == '__main__':"), in_one.stderr


SLOW = (
    SHOP
    + """
import sys, time

@hf.task(process=True, timeout="2s")
def cube(side: int) -> int:
    time.sleep(0.1)
    return side**3

if sys.argv[0].endswith("handler_process.py"):
    time.sleep(2.5)
"""
)


def test_its_time_begins_when_there_is_a_process_for_it(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    fleet.start(app="slow:hf", environment={"PYTHONPATH": str(tmp_path)}, lease=60)
    jobs = [fleet.inbox.enqueue("cube", side=side) for side in range(3)]
    fleet.inbox.wait(jobs)
    assert [fleet.inbox.job(job)["attempts"] for job in jobs] == [1, 1, 1]


FLIGHTY = """
import sys
from holdfast import Holdfast

hf = Holdfast()

def area(side: int) -> int:
    return side * side

if not sys.argv[0].endswith("handler_process.py"):
    hf.task(process=True)(area)
"""


def test_an_application_that_its_processes_cannot_load_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    module = tmp_path / "flighty.py"
    module.write_text(FLIGHTY)
    worker = fleet.launch(app="flighty:hf", environment={"PYTHONPATH": str(tmp_path)})
    assert worker.wait() == 78
    assert "process=True: a process that imports flighty:hf knows no task 'area'" in worker.log
    module.write_text(module.read_text() + "else:\n    raise RuntimeError('not twice')\n")
    worker = fleet.launch(app="flighty:hf", environment={"PYTHONPATH": str(tmp_path)})
    assert worker.wait() == 78
    assert "RuntimeError: not twice" in worker.log
