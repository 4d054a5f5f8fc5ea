"""What a type checker sees of Flow: results are inferred, and wrong arguments are rejected. See pure/test_types.py."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SNIPPET = """
from holdfast import Context, Snooze, TxContext
from holdfast.flow.flow import Flow


def sync(number: int) -> str:
    return ""


async def on_loop(number: int, text: str) -> list[int]:
    return []


async def told(ctx: Context, number: int) -> bytes:
    return b""


def told_in_thread(ctx: Context, number: int) -> float:
    return 1.0


async def in_transaction(ctx: TxContext, number: int) -> bool:
    return True


async def polls(number: int) -> int | Snooze:
    return Snooze(1)


async def nothing() -> None: ...


async def code(flow: Flow) -> None:
    reveal_type(await flow.step("a", sync, 1))  #> str
    reveal_type(await flow.step("a", on_loop, 1, "x"))  #> list[int]
    reveal_type(await flow.step("a", told, 1))  #> bytes
    reveal_type(await flow.step("a", told_in_thread, 1))  #> float
    reveal_type(await flow.step("a", in_transaction, 1, undo=sync, timeout="5s"))  #> bool
    reveal_type(await flow.step("a", polls, 1, key=5, max_attempts=3, catch=True))  #> int
    await flow.step("a", nothing)
    await flow.step("a", sync, "1")  #> "step" of "Flow"
    await flow.step("a", on_loop, 1)  #> "step" of "Flow"
    await flow.step("a", told, 1, 2)  #> "step" of "Flow"
    await flow.step("a", sync, 1, colour="red")  #> "step" of "Flow"
    flow.step("a", sync, 1)  #> Are you missing an await?
    reveal_type(await flow.wait("go", dict[str, int], timeout="3d"))  #> dict[str, int] | None
    reveal_type(await flow.wait("go"))  #> Any
    reveal_type(await flow.patched("p"))  #> bool
    reveal_type(await flow.now())  #> datetime.datetime
"""


@pytest.mark.timeout(300)
def test_a_type_checker_sees_the_results_of_steps(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(SNIPPET)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            tmp_path / "cache",
            "--no-pretty",
            "--config-file=",
            file,
        ],
        capture_output=True,
        text=True,
    )
    said: dict[int, str] = {}
    for line in ran.stdout.splitlines():
        if found := re.match(r".*user\.py:(\d+): (?:error|note): (.*)", line):
            said[int(found[1])] = said.get(int(found[1]), "") + found[2].replace("builtins.", "") + " "
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, expects, expected = line.partition("  #> ")
        here = re.sub(r'^Revealed type is "(.*)" $', r"\1", said.pop(number, ""))
        if not expects:
            assert not here, f"line {number}: {code}\n{here}"
        elif "reveal_type(" in code:
            assert here == expected, f"line {number}: {code}\n{here}"
        else:
            assert expected in here, f"line {number}: {code}\n{here}"
    assert "Found" in ran.stdout, ran.stdout + ran.stderr
