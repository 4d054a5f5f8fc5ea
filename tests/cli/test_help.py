"""Every command says what it does, quickly and without a database."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Shell

from holdfast.cli import _COMMANDS, cli

Words = tuple[str, ...]


@pytest.fixture
def offline(tmp_path: Path) -> Shell:
    return Shell(None, tmp_path)


def command_of(noun: str) -> click.Command:
    command = cli.get_command(click.Context(cli), noun)
    assert command is not None
    return command


def below(path: Words, command: click.Command) -> Iterator[tuple[Words, click.Command]]:
    """This command, and all those of its group."""
    yield path, command
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from below((*path, name), inner)


@pytest.mark.parametrize("noun", _COMMANDS)
def test_help(noun: str) -> None:
    """In this process: to start one for each command would take longer than all the rest."""
    for path, each in below((noun,), command_of(noun)):
        said = CliRunner().invoke(cli, [*path, "--help"], prog_name="holdfast")
        shown = " ".join(path)
        assert said.exit_code == 0, f"{shown}: {said.output}"
        assert re.match(rf"Usage: holdfast {shown}", said.output), shown
        assert each.help, f"{shown}: say what it does"
        assert len(said.output.splitlines()) > 5, shown
        assert max(map(len, said.output.splitlines())) <= 100, shown


def test_help_of_all(offline: Shell) -> None:
    """As a program, with nothing in its environment."""
    for path in ((), ("queue", "keys")):
        answer = offline(*path, "--help")
        assert answer.code == 0, answer.all
        assert re.match(rf"Usage: holdfast {' '.join(path)}".rstrip(), answer.out)


def test_every_command_is_listed_and_described(offline: Shell) -> None:
    out = offline("-h").out
    for name, words in _COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(words)}$", out, re.M)
        assert importlib.import_module(f"holdfast.cli.{name}").command.help


@pytest.mark.parametrize("group", ["workflow", "endpoint", "outbox"])
def test_what_the_commands_of_a_group_do_is_said_in_full(offline: Shell, group: str) -> None:
    assert "..." not in offline(group, "--help").out.partition("Commands:")[2]


ASKING = {
    "job cancel", "job run-now", "dead revive", "dead discard", "queue pause", "schedule pause", "schedule remove",
    "schedule reset", "workflow cancel", "workflow restart", "outbox replay", "outbox remove", "endpoint pause",
    "endpoint disable", "endpoint rotate", "endpoint recover", "endpoint replay", "workers drain",
}  # fmt: skip
"""They ask before they act, unless they are told not to."""
OTHERS = {
    "migrate", "worker", "dashboard", "dev", "top", "simulations", "contracts export", "queue set", "queue resume",
    "schedule add", "schedule resume", "workflow pause", "workflow resume", "endpoint resume", "endpoint enable",
}  # fmt: skip
"""Programs, and verbs that destroy nothing. All others read, and so answer with JSON."""


def test_reads_answer_with_json_and_destructive_verbs_can_be_told_not_to_ask() -> None:
    options = {
        " ".join(path): {option for parameter in each.params for option in parameter.opts}
        for noun in _COMMANDS
        for path, each in below((noun,), command_of(noun))
        if not isinstance(each, click.Group)
    }
    assert {name for name, found in options.items() if "--yes" in found} == ASKING
    assert {name for name, found in options.items() if not found & {"--yes", "--json"}} == OTHERS


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
