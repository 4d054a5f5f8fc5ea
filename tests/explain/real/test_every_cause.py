"""The guard: explain names no cause that no test has brought about for real."""

import ast
import re
from pathlib import Path

from tests.support.causes import hand_written, marked
from tests.support.pages import ROOT

HERE = Path(__file__).parent
SOURCE = ROOT / "src" / "holdfast" / "model" / "explaining"

BY_HAND = {
    ("test_ended.py", "inbox"): "a producer in SQL, as docs/sql.md has it, that forgets the type",
    ("test_processes.py", "inbox"): "a give-back by the runbook that forgets a condition; only that uses up attempts",
    ("test_deliveries.py", "endpoints"): "no command deletes an endpoint",
    ("test_schema.py", "inbox"): "a later release, which knows one more way to end",
    ("test_schema.py", "archive"): "the same",
}
"""Statements of tests that write a state themselves: here, hand-written SQL is the cause."""


def codes() -> set[str]:
    """Every code that the source has."""
    calls = [
        node
        for module in SOURCE.glob("*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason"
    ]
    assert all(isinstance(call.args[0], ast.Constant) for call in calls), "a code that is computed cannot be counted"
    return {str(ast.literal_eval(call.args[0])) for call in calls}


def test_every_code_has_a_test_that_makes_its_cause_for_real() -> None:
    assert len(codes()) > 45, "they are not found"
    assert sorted(codes() - marked(HERE).keys()) == []


def test_no_test_promises_a_code_that_there_is_not() -> None:
    assert sorted(marked(HERE).keys() - codes()) == []


def test_the_page_lists_every_code() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    table = page.partition("| code | it means |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if "|" in line))) == (
        codes()
    )


def test_no_state_is_written_by_hand_without_a_reason() -> None:
    assert hand_written(HERE) == BY_HAND.keys()
