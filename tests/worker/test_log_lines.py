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
    assert len(warnings) == (3 if part is Part.LEASES else 1)  # those of the keeper say what is at stake now
    assert all(f"{error}; " in record.message for record in warnings)


@pytest.mark.parametrize("part", [Part.CLAIM, Part.HAND_OVER, Part.WAKE_UPS])
def test_an_error_of_the_code_comes_with_its_trace(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    Availability(part, Occurrences(LogLines())).failed(RuntimeError("a mistake"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info is not None
