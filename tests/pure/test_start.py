"""What starts does so quickly: it imports what it needs, and no more. Modules are counted here, and not seconds."""

import subprocess
import sys

import pytest
from tests.support.workers import Fleet, Inbox

import holdfast

SLOW = {
    "cronsim",
    "ctypes",
    "email",
    "importlib.metadata",
    "importlib.resources",
    "statistics",
    "sysconfig",
    "tempfile",
}
"""Modules of others that take long to import. What needs one imports it when it is used."""
OPERATORS = {
    f"holdfast.{name}"
    for name in (
        "dashboard", "demo", "dev", "doctor", "embedded", "event_data", "explaining", "instance_states", "measure",
        "model.explaining", "model.facts", "runbook", "simulations", "tables", "testing", "top", "views", "webhooks",
    )
}  # fmt: skip
"""Ours that neither a producer nor a plain worker needs."""


def imported(*modules: str) -> set[str]:
    """What a fresh process has imported after these."""
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_alone_needs_no_driver() -> None:
    found = imported("holdfast")
    assert not found & {"asyncio", "asyncpg", "msgspec", "holdfast.app"}


def test_a_producer_imports_what_it_needs() -> None:
    found = imported("holdfast.app")
    assert not found & (SLOW | OPERATORS)
    assert not {name for name in found if name.startswith(("holdfast.worker.", "holdfast.receiving."))} - {
        "holdfast.worker.settings"
    }


def test_the_command_line_without_a_command_needs_no_driver() -> None:
    assert not imported("holdfast.cli") & {"asyncio", "asyncpg", "msgspec", "holdfast.app"}


@pytest.mark.parametrize("program", ["holdfast.cli.worker", "holdfast.processes.worker_process"])
def test_a_worker_imports_what_it_needs(program: str) -> None:
    needed = {"holdfast.cli.worker": set(), "holdfast.processes.worker_process": {"ctypes", "sysconfig"}}[program]
    found = imported(program)
    assert not found & ((SLOW - needed) | OPERATORS)
    assert not {name for name in found if name.startswith("holdfast.worker.relay.")} & {"holdfast.worker.relay.relay"}
    other = {"holdfast.cli.worker": "holdfast.worker.engine", "holdfast.processes.worker_process": "click"}[program]
    assert other not in found


def test_a_worker_that_runs_jobs_has_imported_no_more(inbox: Inbox, fleet: Fleet) -> None:
    fleet.start(app="tests.apps.modules:hf")
    job = inbox.enqueue("modules")
    inbox.wait(job)
    found = set(inbox.job(job)["result"])
    assert "holdfast.worker.engine" in found
    assert not found & ((SLOW - {"ctypes", "sysconfig"}) | OPERATORS)


def test_values_of_a_worker_are_no_dataclasses() -> None:
    """Each dataclass takes a millisecond to make, and a worker has dozens of values. Those in public may be some."""
    program = """
import sys, holdfast.processes.worker_process, holdfast.processes.supervisor
modules = [module for name, module in list(sys.modules.items()) if name.startswith("holdfast.")]
made = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
print(*sorted(each.__name__ for each in made if "__dataclass_fields__" in vars(each)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Backoff", "Known", "Limits"]


def test_each_public_name_can_be_the_first() -> None:
    """They are imported when they are used, in any order: no module relies on another one that came first."""
    program = """
import os, sys, asyncio, asyncpg, msgspec, holdfast
places = {place: name for name, place in holdfast._LATER.items()}
for name in places.values():
    if not (child := os.fork()):
        getattr(holdfast, name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} could not be imported first")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_name_is_there_and_listed() -> None:
    assert set(holdfast.__all__) <= set(dir(holdfast))
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        holdfast.Nothing  # type: ignore[attr-defined]  # noqa: B018
