"""Where tasks live: `Holdfast(imports=…)` and `--import`, in every process that runs handlers, and not before."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.cli.test_worker import working
from tests.support.waiting import wait_until

from holdfast import ConfigurationError, Holdfast

TASKS = """
from shop_a.hf import hf

@hf.task
def in_thread(n: int) -> int:
    return n

@hf.task(process=True)
def in_process(n: int) -> int:
    return n

@hf.middleware
def around(ctx, call_next):
    call_next()
"""
MORE = """
from shop_a.hf import hf

@hf.task
async def on_loop(n: int) -> int:
    return n

@hf.middleware
async def around_async(ctx, call_next):
    await call_next()
"""


def package(folder: Path, imports: str = "") -> None:
    """An application in one module, which its tasks import from two others."""
    (folder / "shop_a").mkdir()
    files = {
        "__init__": "",
        "hf": f"from holdfast import Holdfast\nhf = Holdfast({imports})\n",
        "tasks": TASKS,
        "more": MORE,
        "broken": "import shop_a.not_there\n",
        "raises": "1 / 0\n",
    }
    for name, text in files.items():
        (folder / "shop_a" / f"{name}.py").write_text(text)


def runs_all(shell: Shell, *flags: str, **variables: str) -> None:
    for kind in ("in_thread", "in_process", "on_loop"):
        shell("enqueue", kind, '{"n": 7}')
    with working(shell, *flags, app="shop_a.hf:hf", **variables) as (_, log):
        done = "select kind, result from holdfast.jobs where status = 'completed' order by kind"
        wait_until(lambda: len(shell.sql(done)) == 3)
        assert "no live worker can run" not in log.read_text()
    assert [row["kind"] for row in shell.sql(done)] == ["in_process", "in_thread", "on_loop"]


def test_modules_that_the_application_names(shell: Shell) -> None:
    package(shell.folder, 'imports=["shop_a.tasks", "shop_a.more"]')
    runs_all(shell)


def test_modules_that_the_command_names(shell: Shell) -> None:
    package(shell.folder, 'imports=["shop_a.tasks"]')
    runs_all(shell, "--import", "shop_a.more", "--import", "shop_a.tasks")


def test_modules_that_the_environment_names(shell: Shell) -> None:
    package(shell.folder)
    runs_all(shell, HOLDFAST_WORKER_IMPORT="shop_a.tasks shop_a.more")


def test_enqueue_knows_them(shell: Shell) -> None:
    package(shell.folder, 'imports=["shop_a.tasks"]')
    assert shell("enqueue", "--app", "shop_a.hf:hf", "in_thread", '{"n": 1}').code == 0
    refused = shell("enqueue", "--app", "shop_a.hf:hf", "on_loop", '{"n": 1}')
    assert "shop_a.hf:hf has no task 'on_loop'; it has in_process, in_thread" in refused.err
    assert shell("enqueue", "--app", "shop_a.hf:hf", "--import", "shop_a.more", "on_loop", '{"n": 1}').code == 0
    assert (
        shell("enqueue", "--app", "shop_a.hf:hf", "on_loop", '{"n": 1}', HOLDFAST_ENQUEUE_IMPORT="shop_a.more").code
        == 0
    )
    alone = shell("enqueue", "--import", "shop_a.more", "on_loop", '{"n": 1}')
    assert alone.code == 2
    assert "name it with --app" in alone.err


@pytest.mark.parametrize(
    ("module", "said", "frames"),
    [
        ("shop_a.taks", "holdfast: imports: there is no module 'shop_a.taks' in ", 0),
        ("shopp.tasks", "holdfast: imports: there is no module 'shopp' in ", 0),
        ("shop_a.broken", "holdfast: imports: shop_a.broken could not be imported:\nTraceback", 1),
        ("shop_a.raises", "holdfast: imports: shop_a.raises could not be imported:\nTraceback", 1),
        (
            "shop_a/tasks.py",
            "holdfast: imports: expected modules, such as shop.tasks, not files; got 'shop_a/tasks.py'",
            0,
        ),
    ],
)
def test_modules_that_cannot_be_imported(tmp_path: Path, module: str, said: str, frames: int) -> None:
    package(tmp_path)
    answer = Shell(None, tmp_path)("worker", "shop_a.hf:hf", "--import", module)
    assert answer.code == 78
    assert answer.err.startswith(said)
    assert answer.err.count("  File ") == frames, "only theirs"


def test_an_application_without_tasks_is_told_how_to_name_them(shell: Shell) -> None:
    package(shell.folder)
    answer = shell("worker", "shop_a.hf:hf")
    assert answer.code == 78
    assert "has no tasks" in answer.err
    assert "--import shop.tasks" in answer.err


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop_a"]:
        del sys.modules[name]


async def test_a_worker_inside_an_application(importable: Path, migrated_url: str) -> None:
    package(importable, f'{migrated_url!r}, imports=["shop_a.tasks"]')
    from shop_a.hf import hf  # type: ignore[import-not-found]

    assert not hf.tasks, "nothing is imported when the application is made"
    path = list(sys.path)
    async with hf.worker(poll=0.05, imports=["shop_a.more"]):
        assert set(hf.tasks) == {"in_thread", "in_process", "on_loop"}
        jobs = [await hf.tasks[kind].enqueue(3) for kind in hf.tasks]
        assert [await job.result() for job in jobs] == [3, 3, 3]
    assert sys.path == path
    await hf.close()


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"imports: expected a list of modules, such as \['shop.tasks'\]"):
        Holdfast(imports="shop.tasks")
    with pytest.raises(ConfigurationError, match=r"imports: expected modules, such as shop.tasks, not files; got 7"):
        Holdfast(imports=[7])  # type: ignore[list-item]


def test_jobs_that_no_worker_knows_are_named(shell: Shell) -> None:
    shell("enqueue", "send_receipt", "{}")
    shell("enqueue", "send_receipt", "{}")
    shell("enqueue", "greet", '{"name": "Ada"}', "--version", "4")
    shell.sql("insert into holdfast.kinds (kind, version, app, arguments) values ('send_receipt', 1, 'shop', '{}')")
    with working(shell) as (_, log):
        wait_until(lambda: "no live worker can run" in log.read_text())
        (line,) = [line for line in log.read_text().splitlines() if "no live worker can run" in line]
        rows = shell("stats", "--json").json["unclaimable"]
        assert {(row["kind"], row["app"]) for row in rows} == {("send_receipt", "shop"), ("greet", "shop")}
    assert "WARNING" in line
    assert "send_receipt in queue default (2, declared by shop), greet version 4 in queue default (1" in line
    assert "--import shop.tasks" in line
