"""What is kept of an ending is storable and bounded, whatever it was made of."""

import json

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.limits import Limits
from holdfast.model.outcome import AttemptFailed, Ended, Fail, Final, Snooze, Snoozed, failure, trim
from holdfast.worker.attempts.deciding import returned


@pytest.mark.parametrize("size", [40, 100, 1024])
@pytest.mark.parametrize("text", ["", "short", "x" * 5000, "€" * 5000, "\0" * 5000, "\ud800" * 5000])
def test_trimmed_text_is_valid_and_fits(text: str, size: int) -> None:
    kept = trim(text, size)
    assert len(kept.encode()) <= size
    assert "\0" not in kept


def test_head_and_tail_are_kept() -> None:
    kept = trim("head" + "x" * 1000 + "tail", 100)
    assert kept.startswith("head")
    assert kept.endswith("tail")
    assert "[cut]" in kept


def test_a_failure_is_recorded_with_its_trace() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        failed = failure(error)
    assert failed.last_error() == "ValueError: no"
    record = json.loads(failed.record())
    assert (record["error"], record["message"]) == ("ValueError", "no")
    assert "test_outcome.py" in record["trace"]


def test_records_and_reasons_are_bounded() -> None:
    limits = Limits(error_bytes=1000)
    failed = AttemptFailed("E" * 5000, "m" * 5000, "t" * 5000)
    assert len(failed.last_error(limits)) <= 1000
    assert len(failed.record(limits)) <= 1400
    assert len(Ended(Final.FAILED, "r" * 5000).last_error(limits)) <= 1000


def test_endings_are_equal_by_value() -> None:
    assert Snooze("5m") == Snooze("5m") != Snooze("6m")
    assert {Fail("why"), Fail("why")} == {Fail("why")}
    assert Fail("5m") != Snooze("5m")


def test_endings_are_values() -> None:
    assert returned(Snooze("5m")) == Snoozed(300.0, counted=True)
    assert returned(Fail("why")) == Ended(Final.FAILED, "why")


@pytest.mark.parametrize("delay", [-1, "soon", float("nan"), float("inf")])
def test_a_snooze_needs_a_duration(delay: float | str) -> None:
    with pytest.raises(InvalidInput):
        Snooze(delay)
