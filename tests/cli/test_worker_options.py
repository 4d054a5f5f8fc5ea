"""The settings of a worker have one source: Python, the command line, the environment and the page agree with it."""

import re
from pathlib import Path

import click
import pytest
from msgspec.structs import fields

from holdfast import ConfigurationError, InvalidInput, WorkerOptions
from holdfast.cli.worker import command
from holdfast.worker.settings import POLL_MIN, WorkerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "worker.md").read_text()
NOT_SETTINGS = {"processes", "log_level", "log_format", "pooler"}
"""Of the command: of no worker process, or of the application."""

flags = {param.name: param for param in command.params if isinstance(param, click.Option)}
settings = {"poll" if field.name == "poll_max" else field.name: field.default for field in fields(WorkerSettings)}


def test_the_command_has_every_option_of_python() -> None:
    assert set(flags) - NOT_SETTINGS == set(WorkerOptions.__annotations__)
    assert set(WorkerOptions.__annotations__) == set(settings) - {"poll_min", "prefetch", "batch"}


@pytest.mark.parametrize("name", sorted(WorkerOptions.__annotations__))
def test_the_defaults_are_those_of_the_settings(name: str) -> None:
    flag = flags[name]
    default = () if flag.multiple else flag.default and flag.type.convert(flag.default, flag, None)
    assert default == settings[name]
    assert flag.help


@pytest.mark.parametrize("name", sorted({*WorkerOptions.__annotations__, "processes", "log_level", "log_format"}))
def test_the_page_has_every_flag_with_its_default_and_its_variable(name: str) -> None:
    flag = flags[name]
    row = next(line for line in PAGE.splitlines() if line.startswith("| `-") and f"`{flag.opts[-1]}`" in line)
    _, _, default, variable, *_ = [cell.strip() for cell in row.split("|")]
    shown = {"queues": "those of the tasks", "imports": "none", "metrics": "none", "notify": "on"}.get(
        name, str(flag.default)
    )
    assert default == shown
    assert variable == f"`{flag.envvar or f'HOLDFAST_WORKER_{name.upper()}'}`"


def test_options_in_the_units_that_users_write() -> None:
    assert WorkerSettings.of() == WorkerSettings()
    chosen = WorkerSettings.of(queues=["mail"], lease="2m", poll="1ms")
    assert chosen == WorkerSettings(queues=("mail",), lease=120, poll_max=0.001, poll_min=0.001)
    assert WorkerSettings.of(poll=3600).poll_min == POLL_MIN


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="leese: is not an option of a worker; expected one of queues, conc"):
        WorkerSettings.of(leese="2m")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="lease"):
        WorkerSettings.of(lease="soon")
    with pytest.raises(InvalidInput, match="queue"):
        WorkerSettings.of(queues=[""])
    assert not re.search(r"poll_max", PAGE)
