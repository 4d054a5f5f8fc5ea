"""The pages for Prometheus."""

import subprocess

import pytest
from tests.support.prometheus import promtool

from holdfast.errors import ConfigurationError
from holdfast.metrics.address import address, listen
from holdfast.metrics.families import installation_page, worker_page
from holdfast.model.numbers import Attempts, Gauge, Histogram

HOSTILE = 'a"b\\c\nd'


def test_a_worker_page() -> None:
    page = worker_page(
        {
            ("", ""): Attempts(lease_losses=2, retried=1),
            ("mail", "send"): Attempts(started=3, completed=2, dead=1, fenced=1, run=Histogram.of([0.5, 3000.0])),
        },
        {(("mail", "send"), "swept"): 1},
    ).decode()
    lines = page.splitlines()
    assert 'holdfast_attempts_started_total{queue="mail",kind="send"} 3' in lines
    assert 'holdfast_attempts_ended_total{queue="mail",kind="send",outcome="dead"} 1' in lines
    assert 'holdfast_attempts_ended_total{queue="",kind="",outcome="retried"} 1' in lines
    assert 'holdfast_run_seconds_bucket{queue="mail",kind="send",le="0.5"} 1' in lines
    assert 'holdfast_run_seconds_bucket{queue="mail",kind="send",le="2048"} 1' in lines
    assert 'holdfast_run_seconds_bucket{queue="mail",kind="send",le="+Inf"} 2' in lines
    assert 'holdfast_run_seconds_count{queue="mail",kind="send"} 2' in lines
    assert 'holdfast_run_seconds_sum{queue="mail",kind="send"} 3000.5' in lines
    assert 'holdfast_attempts_lost_total{queue="mail",kind="send",how="swept"} 1' in lines
    assert "holdfast_lease_losses_total 2" in lines
    assert "holdfast_fenced_writes_total 1" in lines
    assert page.endswith("\n")


def test_an_installation_page() -> None:
    lines = (
        installation_page(
            [
                Gauge("jobs", 1_234_567, "mail", label="pending", exact=False),
                Gauge("jobs", 2, "idle", label="pending"),
                Gauge("claim_age", 12.5, "mail"),
                Gauge("unclaimable", 4, "mail", kind="gone"),
                Gauge("workflows", 7, kind="order", label="waiting"),
                Gauge("outbox_lag", 0.5, label="nats"),
                Gauge("horizon_age", 99),
            ]
        )
        .decode()
        .splitlines()
    )
    assert 'holdfast_jobs{queue="mail",state="pending"} 1234567' in lines
    assert 'holdfast_claim_age_seconds{queue="mail"} 12.5' in lines
    assert 'holdfast_claim_age_seconds{queue="idle"} 0' in lines, "nothing is due there"
    assert 'holdfast_unclaimable_jobs{queue="mail",kind="gone"} 4' in lines
    assert 'holdfast_workflows{name="order",state="waiting"} 7' in lines
    assert 'holdfast_outbox_lag_seconds{route="nats"} 0.5' in lines
    assert "holdfast_horizon_age_xids 99" in lines
    assert not any("holdfast_chore_age" in line for line in lines), "no series: no family"


def test_promtool_reads_both_pages_and_finds_nothing_to_complain_about() -> None:
    tool = promtool()
    attempts = Attempts(started=1, run=Histogram.of([1.0]), pickup=Histogram.of([0.001]))
    gauges = [Gauge("jobs", 1, HOSTILE, label="pending"), Gauge("claim_age", 1e-9, HOSTILE), Gauge("horizon_age", 1)]
    for page in (worker_page({("", ""): Attempts(), (HOSTILE, HOSTILE): attempts}), installation_page(gauges)):
        done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stderr == b"", done.stderr.decode()


@pytest.mark.parametrize("where", ["9464", "host:", ":9464", "host:port", "host:70000", "::1:9464", "host:٣"])
def test_addresses_that_are_none(where: str) -> None:
    with pytest.raises(ConfigurationError, match="metrics: expected"):
        address(where)


def test_addresses() -> None:
    assert address("127.0.0.1:9464") == ("127.0.0.1", 9464)
    assert address("[::1]:0") == ("::1", 0)
    assert address("web-1:80") == ("web-1", 80)


def test_an_address_that_is_taken_is_named() -> None:
    with (
        listen("127.0.0.1:0") as taken,
        pytest.raises(ConfigurationError, match=r"cannot listen at 127.0.0.1:.*in use"),
    ):
        listen(f"127.0.0.1:{taken.getsockname()[1]}")
