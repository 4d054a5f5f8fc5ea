"""Every command says what it does, quickly and without a database."""

import importlib
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.cli.conftest import Shell

from holdfast.cli import _COMMANDS

PATHS = [
    ("migrate",), ("worker",), ("enqueue",), ("job", "list"), ("job", "show"), ("job", "explain"), ("job", "cancel"),
    ("job", "run-now"), ("dead", "list"), ("dead", "groups"), ("dead", "revive"), ("dead", "discard"),
    ("queue", "list"), ("queue", "pause"), ("incidents",), ("dashboard",),
    ("queue", "resume"), ("schedule", "list"), ("schedule", "show"), ("schedule", "pause"), ("schedule", "resume"),
    ("schedule", "trigger"), ("schedule", "add"), ("schedule", "remove"), ("schedule", "reset"), ("schedule",),
    ("endpoint", "add"), ("endpoint", "list"), ("endpoint", "show"), ("endpoint", "pause"), ("endpoint", "resume"),
    ("endpoint", "enable"), ("endpoint", "disable"), ("endpoint", "rotate"), ("endpoint", "test"),
    ("endpoint", "attempts"), ("endpoint", "recover"), ("endpoint", "replay"), ("endpoint",), ("workers", "list"),
    ("contracts", "export"), ("contracts", "check"), ("contracts",), ("stats",), ("outbox", "routes"),
    ("outbox", "lag"), ("outbox", "list"), ("outbox", "show"), ("outbox", "replay"), ("outbox", "remove"), ("outbox",),
    ("workflow", "list"), ("workflow", "show"), ("workflow", "signal"), ("workflow", "cancel"), ("workflow", "pause"),
    ("workflow", "resume"), ("workflow", "restart"), ("workflow", "check"), ("workflow",), ("health",), ("measure",),
    ("doctor",), ("runbook",), ("dev",), ("demo",), ("simulations",), ("top",), ("job",), ("dead",), ("queue",),
    ("workers",), (),
]  # fmt: skip


@pytest.fixture
def offline(tmp_path: Path) -> Shell:
    return Shell(None, tmp_path)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help(offline: Shell, path: tuple[str, ...]) -> None:
    answer = offline(*path, "--help")
    assert answer.code == 0, answer.all
    assert re.match(rf"Usage: holdfast {' '.join(path)}".rstrip(), answer.out)
    assert len(answer.out.splitlines()) > 5
    assert max(map(len, answer.out.splitlines())) <= 100


def test_every_command_is_listed_and_described(offline: Shell) -> None:
    out = offline("-h").out
    for name, words in _COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(words)}$", out, re.M)
        assert importlib.import_module(f"holdfast.cli.{name}").command.help


@pytest.mark.parametrize("group", ["workflow", "endpoint", "outbox"])
def test_what_the_commands_of_a_group_do_is_said_in_full(offline: Shell, group: str) -> None:
    assert "..." not in offline(group, "--help").out.partition("Commands:")[2]


def test_reads_answer_with_json_and_destructive_verbs_can_be_told_not_to_ask(offline: Shell) -> None:
    for path in (
        "job list",
        "job show",
        "job explain",
        "dead list",
        "queue list",
        "schedule list",
        "schedule show",
        "endpoint add",
        "endpoint list",
        "endpoint show",
        "endpoint test",
        "endpoint attempts",
        "workers list",
        "contracts check",
        "stats",
        "health",
        "doctor",
        "runbook",
        "measure",
    ):
        assert "--json" in offline(*path.split(), "--help").out
    verbs = (
        "job cancel", "job run-now", "dead revive", "dead discard", "queue pause", "schedule pause", "schedule remove",
        "schedule reset", "endpoint pause", "endpoint disable", "endpoint rotate", "endpoint recover",
        "endpoint replay",
    )  # fmt: skip
    for path in verbs:
        assert "--yes" in offline(*path.split(), "--help").out


def test_the_version(offline: Shell) -> None:
    assert re.search(r"\b0\.1\.0\b", offline("--version").out)


def test_ctrl_c_during_the_imports_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "__init__.py").write_text(
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs\n"
        "signal.raise_signal(signal.SIGINT)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from holdfast_command import main; main()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (130, "")


def test_the_installed_command(offline: Shell) -> None:
    (entry,) = entry_points(group="console_scripts", name="holdfast")
    assert entry.value == "holdfast_command:main"
    done = subprocess.run([sys.executable, "-c", "from holdfast_command import main; main()"], capture_output=True)
    assert done.returncode == offline().code


def test_an_unknown_command_is_a_usage_error(offline: Shell) -> None:
    answer = offline("fly")
    assert answer.code == 2
    assert "No such command 'fly'" in answer.err
