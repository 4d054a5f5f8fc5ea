"""What the log says about outages."""

import logging

import pytest

from holdfast.errors import Contended, Unreachable
from holdfast.model.availability import Availability
from holdfast.model.occurrences import Occurrences, Part
from holdfast.worker.log_lines import LogLines


@pytest.mark.parametrize("error", [Unreachable("away"), Contended("busy")], ids=["unreachable", "contended"])
@pytest.mark.parametrize("part", Part)
def test_an_outage_is_logged_when_it_begins(part: Part, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    availability = Availability(part, Occurrences(LogLines()))
    for _ in range(3):
        availability.failed(error, rows=2)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"{error}; " in warnings[0].message


def test_an_outage_that_goes_on_says_now_and_then_how_many_leases_are_at_stake(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    availability = Availability(Part.LEASES, Occurrences(LogLines()))
    every = "holdfast.worker.log_lines.LEASES_EVERY"
    monkeypatch.setattr(every, 3600.0)
    availability.failed(Unreachable("away"))  # a heartbeat: nothing is at stake
    availability.failed(Unreachable("away"), rows=1)
    availability.failed(Unreachable("away"), rows=2)
    monkeypatch.setattr(every, -1.0)  # that time is over
    availability.failed(Unreachable("away"), rows=3)
    monkeypatch.setattr(every, 3600.0)
    availability.succeeded()
    availability.failed(Unreachable("away"), rows=4)
    assert [record.message[0] for record in caplog.records if record.levelno == logging.WARNING] == ["1", "3", "4"]


@pytest.mark.parametrize("part", [Part.CLAIM, Part.HAND_OVER, Part.WAKE_UPS])
def test_an_error_of_the_code_comes_with_its_trace(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    Availability(part, Occurrences(LogLines())).failed(RuntimeError("a mistake"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info is not None
