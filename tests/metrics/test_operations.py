"""The files in ops/: every panel of the Grafana dashboard shows something that we export, and the alerts are right."""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.housekeeping.rows import put
from tests.support.prometheus import Prometheus, promtool
from tests.support.waiting import wait_until
from tests.support.workers import Fleet
from tests.worker.test_numbers import free_port

OPS = Path(__file__).parents[2] / "ops"
DASHBOARD = json.loads((OPS / "grafana" / "holdfast.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
VARIABLES = {"$queue": ".*", "$__rate_interval": "5m"}


def plain(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def fill(fleet: Fleet) -> None:
    """Something of everything that the panels show."""
    inbox = fleet.inbox
    put(inbox, payload='{"type": "unknown to all"}')
    inbox.rows("insert into holdfast.routes (name, types, queue) values ('nats', '{*}', 'out.nats')")
    inbox.rows(
        "insert into holdfast.kinds (kind, version, app, arguments, workflow) values ('flow', 1, 'shop', '{}', true)"
    )
    put(inbox, payload='{"type": "flow"}', available_at="tomorrow", lease_generation=1)
    inbox.rows("insert into holdfast.queues (name, paused_at) values ('mail', now())")


@pytest.fixture
def scraped(fleet: Fleet) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a real worker."""
    where = f"127.0.0.1:{free_port()}"
    server = Prometheus(where, ["/metrics", "/metrics/installation"])
    try:
        fleet.inbox.prepare()
        fill(fleet)
        server.start()
        fleet.start(options=["--metrics", where])
        yield server
    finally:
        server.close()


def numbers(server: Prometheus, query: str) -> list[float]:
    found = [float(series["value"][1]) for series in server.query(plain(query))]
    return [value for value in found if not math.isnan(value)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_panel_shows_what_a_real_worker_exports(fleet: Fleet, scraped: Prometheus) -> None:
    left = dict(QUERIES)

    def all_shown() -> bool:
        fleet.inbox.enqueue("quick")
        fleet.inbox.enqueue("failing", times=9, max_attempts=2)
        for name, query in list(left.items()):
            if numbers(scraped, query):
                del left[name]
        return not left

    try:
        wait_until(all_shown, 200)
    except AssertionError:
        raise AssertionError(f"these show nothing: {left}") from None
    assert numbers(scraped, 'holdfast_jobs{state="sleeping",queue="default"}') == [1]
    assert numbers(scraped, 'holdfast_queue_paused{queue="mail"}') == [1]
    assert numbers(scraped, 'holdfast_unclaimable_jobs{kind="unknown to all"}') == [1]


def test_every_series_of_the_rules_and_panels_is_one_that_the_page_documents() -> None:
    page = (OPS.parent / "docs" / "metrics.md").read_text()
    rules = (OPS / "prometheus" / "alerts.yml").read_text()
    used = set(re.findall(r"holdfast_[a-z_]+", " ".join([*QUERIES.values(), rules])))
    assert used
    for name in used:
        assert name.removesuffix("_bucket") in page, name


def test_every_alert_is_explained() -> None:
    page = (OPS.parent / "docs" / "metrics.md").read_text()
    for alert in re.findall(r"alert: (\w+)", (OPS / "prometheus" / "alerts.yml").read_text()):
        assert f"`{alert}`" in page, alert


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", str(OPS / "prometheus" / "alerts.yml")),
        ("check", "config", str(OPS / "prometheus" / "prometheus.yml")),
        ("test", "rules", str(Path(__file__).parent / "alerts_test.yml")),
    ],
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([promtool(), *arguments], capture_output=True, timeout=120)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
