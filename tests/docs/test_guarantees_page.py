"""The guarantees page names tests that exist, for every promise that it makes."""

import ast
import re

import pytest
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
PROMISES = re.findall(r"^\| (P\d+) \|", PAGE, re.M)


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_named_test_exists(file: str, function: str) -> None:
    path = ROOT / file
    assert path.exists(), f"{file} is not there; the page names {function} in it"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in defined, f"{file} has no {function}"


def test_every_promise_names_a_test() -> None:
    assert [int(promise[1:]) for promise in PROMISES] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18]
    for promise in PROMISES:
        section = re.search(rf"^\*\*{promise} .*?(?=^\*\*P|^## )", PAGE, re.M | re.S)
        assert section is not None, f"{promise} has no tests"
        assert re.search(r"`tests/[\w/]+\.py::\w+`", section[0]), f"{promise} names no test"
