"""The guard: the doctor has no finding that no test has brought about for real."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.causes import hand_written, marked
from tests.support.pages import ROOT

from holdfast.doctor.checks import CHECKS

HERE = Path(__file__).parent
SOURCE = ROOT / "src" / "holdfast" / "doctor" / "checks"

Finding = tuple[str, str, str]
"""Check, level, and the fixed words of its sentence."""


def findings() -> Iterator[Finding]:
    """What is not "ok", of every check: one for each sentence and each level that it can have."""
    for check in CHECKS:
        tree = ast.parse((SOURCE / f"{check.name}.py").read_text(encoding="utf-8"))
        sentences = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Found":
                told = node.args[1]
                told = sentences[told.id] if isinstance(told, ast.Name) else told
                for level in levels(node.args[0]) - {"ok"}:
                    yield check.name, level, fixed(told)


def levels(level: ast.expr) -> set[str]:
    """The levels that an expression can have: those in it, or, if it is computed by limits, the two bad ones."""
    constants = {node.value for node in ast.walk(level) if isinstance(node, ast.Constant)}
    named = {value for value in constants if value in ("ok", "warn", "fail", "unseen")}
    return {str(value) for value in named} or {"warn", "fail"}


def fixed(told: ast.expr) -> str:
    """The words of a sentence that are always the same."""
    return "…".join(node.value for node in ast.walk(told) if isinstance(node, ast.Constant) and type(node.value) is str)


def made() -> set[Finding]:
    """What tests are marked with."""
    marks = [*marked(HERE), *marked(HERE.parent)]
    return {(check, level, words) for check, level, words in (mark.split(": ", 2) for mark in marks)}


def test_every_finding_has_a_test_that_makes_its_cause_for_real() -> None:
    found = list(findings())
    assert {check for check, _, _ in found} == {check.name for check in CHECKS}, "they are not found"
    marks = made()
    missing = [
        (check, level, words)
        for check, level, words in found
        if not any((check, level) == mark[:2] and mark[2] in words for mark in marks)
    ]
    assert missing == []


def test_no_state_is_written_by_hand() -> None:
    assert hand_written(HERE) == set()
