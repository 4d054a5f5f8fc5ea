"""The server ends with the process that started it, however that process ends, and nothing is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import processes_mentioning
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

OWNER = """
import os, signal, sys, time
from holdfast.embedded import EmbeddedPostgres
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
server = EmbeddedPostgres()
server.start()
{then}
print(server.data_folder.parent, flush=True)
time.sleep(600)
"""


def start_owner(then: str = "") -> tuple[subprocess.Popen[str], Path]:
    program = OWNER.format(then=then)
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    assert folder.name.startswith("holdfast-pg-")
    assert processes_mentioning(folder)
    return owner, folder


def reap(owner: subprocess.Popen[str]) -> None:
    owner.wait(60)
    assert owner.stdout is not None
    owner.stdout.close()


def nothing_is_left(folder: Path) -> bool:
    return not folder.exists() and not processes_mentioning(folder)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_owner_killed(number: signal.Signals) -> None:
    owner, folder = start_owner()
    owner.send_signal(number)
    reap(owner)
    wait_until(lambda: nothing_is_left(folder))


def test_owner_killed_after_it_killed_the_server() -> None:
    owner, folder = start_owner(then="server.kill()")
    owner.kill()
    reap(owner)
    wait_until(lambda: nothing_is_left(folder))


def test_owner_killed_while_a_fork_of_it_holds_the_pipe() -> None:
    owner, folder = start_owner(then="if os.fork() == 0: time.sleep(600)")
    try:
        owner.kill()
        owner.wait(30)
        wait_until(lambda: nothing_is_left(folder))
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        reap(owner)


def test_owner_killed_while_it_makes_the_server() -> None:
    program = OWNER.format(then="")
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as owner:

        def reaper_runs() -> bool:
            return bool(folders_of(owner.pid))

        wait_until(reaper_runs)
        (folder,) = folders_of(owner.pid)
        owner.kill()
    wait_until(lambda: nothing_is_left(folder))


def folders_of(owner: int) -> set[Path]:
    """The folders kept for an owner, read from the arguments of its reaper."""
    found = set()
    for _, argv in processes_mentioning("reaper_process.py"):
        if str(owner) in argv:
            found.add(Path(argv[argv.index(str(owner)) + 1]))
    return found


def test_ctrl_c_at_the_terminal_spares_the_server() -> None:
    """Ctrl-C signals the foreground group; a server of that group would be gone before its owner decides."""
    owner, folder = start_owner(then="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    server = {pid for pid, _ in processes_mentioning(folder)}
    groups = {os.getpgid(pid) for pid in server}
    assert owner.pid not in groups
    owner.kill()
    reap(owner)
    wait_until(lambda: nothing_is_left(folder))
