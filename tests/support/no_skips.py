"""With HOLDFAST_NO_SKIPS=1, as in continuous integration, a test that does not run is a test that fails."""

import os
from collections.abc import Generator

import pytest


def enabled() -> bool:
    return os.environ.get("HOLDFAST_NO_SKIPS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if enabled() and report.skipped:
        expected = getattr(report, "wasxfail", None)
        if expected is not None:
            del report.wasxfail  # or it would still be counted as expected
        report.longrepr = f"HOLDFAST_NO_SKIPS=1 allows no skips: {expected or _reason(report.longrepr)}"
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if enabled() and report.skipped:
        report.longrepr = f"HOLDFAST_NO_SKIPS=1 allows no skips: {_reason(report.longrepr)}"
        report.outcome = "failed"
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
