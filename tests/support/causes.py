"""Which causes a test brings about for real, and a check that each of them was really told.

    @cause("paused", "no_worker")       the test makes both, and explain must name both before it ends
    @cause("horizon: fail")             the same of a check of the doctor, and how bad it found it

A guard test compares the marks with what the source can say. It reads the files, so it does not depend on which tests
run. `hand_written` finds statements that write a state instead of bringing it about.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

cause = pytest.mark.cause

_WRITES = re.compile(r"\b(insert\s+into|update|delete\s+from)\s+holdfast\.(\w+)", re.IGNORECASE)


def tests_of(folder: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The tests of a folder, each with the name of its file."""
    for file in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield file.name, node


def marked(folder: Path) -> dict[str, list[str]]:
    """Each cause that a test of the folder is marked with, and these tests."""
    found: dict[str, list[str]] = {}
    for file, test in tests_of(folder):
        for decorator in test.decorator_list:
            if (
                isinstance(decorator, ast.Call)
                and isinstance(decorator.func, ast.Name)
                and decorator.func.id == "cause"
            ):
                for argument in decorator.args:
                    found.setdefault(ast.literal_eval(argument), []).append(f"{file}::{test.name}")
    return found


def hand_written(folder: Path) -> set[tuple[str, str]]:
    """Where files of the folder write to tables of the installation themselves: file and table."""
    found = set()
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {(file.name, table) for _, table in _WRITES.findall(node.value)}
    return found


def promised(request: pytest.FixtureRequest) -> set[str]:
    """What the marks of this test say."""
    return {name for mark in request.node.iter_markers("cause") for name in mark.args}
