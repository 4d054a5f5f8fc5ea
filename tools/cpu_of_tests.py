"""Where the CPU time of the tests goes: `python -m pytest -p tools.cpu_of_tests -n 2 tests/worker`.

At the end, it lists the tests and the files that took most, in seconds: of the process that runs the tests, of the
processes that it started and waited for, and of its Postgres server. Processes that were killed together with their
parent are missing.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.embedded import EmbeddedPostgres

SHOWN = 40
_TICK = os.sysconf("SC_CLK_TCK")
_servers: dict[EmbeddedPostgres, float] = {}
"""With the CPU time that each has taken. What one has taken counts as its parent's when it has ended."""
_taken: list[tuple[str, tuple[float, float, float]]] = []


def pytest_configure() -> None:
    start = EmbeddedPostgres.start

    def started(server: EmbeddedPostgres) -> Any:
        _servers.setdefault(server, 0.0)
        return start(server)

    EmbeddedPostgres.start = started  # type: ignore[method-assign, assignment]


def _of_processes() -> tuple[float, float, float]:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    for server in _servers:
        if server.pid is not None:
            _servers[server] = _of_server(server.pid)
    ended = sum(taken for server, taken in _servers.items() if server.pid is None)
    return time.process_time(), children.ru_utime + children.ru_stime - ended, sum(_servers.values())


def _of_server(pid: int) -> float:
    """Of the postmaster, of its sessions that have ended, and of those that are open."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return _of_process(pid, ended=True) + sum(_of_process(int(child)) for child in children)
    except OSError:
        return 0.0


def _of_process(pid: int, ended: bool = False) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11 : 15 if ended else 13]) / _TICK


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _of_processes()
    yield
    after = _of_processes()
    own, children, server = (max(0.0, b - a) for a, b in zip(before, after, strict=True))
    if (worker := getattr(item.config, "workeroutput", None)) is not None:
        worker.setdefault("cpu", []).append((item.nodeid, (own, children, server)))
    else:
        _taken.append((item.nodeid, (own, children, server)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _taken.extend((name, tuple(cpu)) for name, cpu in getattr(node, "workeroutput", {}).get("cpu", []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    files: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for name, cpu in _taken:
        for number, seconds in enumerate((*cpu, 1.0)):
            files[name.partition("::")[0]][number] += seconds
    write = terminalreporter.write_line
    total = [sum(cpu[number] for _, cpu in _taken) for number in range(3)]
    write(f"CPU: {sum(total):.1f} s (tests {total[0]:.1f}, what they started {total[1]:.1f}, Postgres {total[2]:.1f})")
    for name, (own, children, server, count) in sorted(files.items(), key=lambda each: -sum(each[1][:3])):
        write(f"{own + children + server:8.1f} {own:7.1f} {children:7.1f} {server:7.1f}  {name} ({count:.0f})")
    write("")
    for name, (own, children, server) in sorted(_taken, key=lambda each: -sum(each[1]))[:SHOWN]:
        write(f"{own + children + server:8.2f} {own:7.2f} {children:7.2f} {server:7.2f}  {name}")
