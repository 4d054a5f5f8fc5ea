"""The performance page and its plots are what the committed figures say."""

import json
import shutil
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.pages import ROOT

from bench import document, plots
from bench.figures import OURS, Results, at_least
from bench.paces import BURSTS, PACES
from bench.workflows.cases import CASES

FIGURES = ROOT / "docs" / "bench.json"
ALL = sorted((ROOT / "docs").glob("bench*.json"))
"""Those of the run, and those that were measured apart."""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The figures, page and plots, to be changed."""
    for path in (*ALL, ROOT / "docs" / "performance.md"):
        shutil.copy(path, tmp_path / path.name)
    shutil.copytree(ROOT / "docs" / "plots", tmp_path / "plots")
    return tmp_path / "bench.json"


def test_the_committed_page_and_plots_match_the_committed_figures() -> None:
    assert document.stale(FIGURES) == [], "run: python -m bench.document docs/bench.json"


def test_every_part_is_on_the_page() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert {f"<!-- bench: {name} -->" for name in document.PARTS} <= set(page.splitlines())


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_the_committed_medians_are_those_of_the_values(path: Path) -> None:
    for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]:
        assert figure["median"] == statistics.median(figure["values"]), figure["name"]


@pytest.mark.parametrize(
    ("axis", "case", "changed"),
    [("drain", "rate", {"performance.md", "drain.svg"}), ("wake", "every", {"performance.md"})],
)
def test_a_figure_that_differs_is_noticed(copied: Path, axis: str, case: str, changed: set[str]) -> None:
    everything = json.loads(copied.read_text(encoding="utf-8"))
    *_, figure = (f for f in everything["figures"] if (f["axis"], f["case"], f["system"]) == (axis, case, OURS))
    figure["values"] = [value * 1.5 for value in figure["values"]]
    copied.write_text(json.dumps(everything), encoding="utf-8")
    assert {path.name for path in document.stale(copied)} == changed


def test_a_table_edited_by_hand_is_noticed(copied: Path) -> None:
    page = copied.with_name("performance.md")
    page.write_text(page.read_text(encoding="utf-8").replace("| drain |", "| drains |", 1), encoding="utf-8")
    assert document.stale(copied) == [page]


def test_prose_is_left_alone(copied: Path) -> None:
    page = copied.with_name("performance.md")
    page.write_text(page.read_text(encoding="utf-8") + "\nAnother word.\n", encoding="utf-8")
    assert document.stale(copied) == []


def test_a_plot_that_nothing_makes_is_noticed(copied: Path) -> None:
    (copied.parent / "plots" / "old.svg").write_text("<svg/>")
    assert document.stale(copied) == [copied.parent / "plots" / "old.svg"]


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected one of conditions, targets"):
        document.render("<!-- bench: weather -->\n<!-- /bench -->", Results("reduced"))


def test_plots_are_well_formed_and_name_every_system() -> None:
    made = Results("reduced")
    for system in ("holdfast", "pg-boss", "a < b & c"):
        made.add("drain", "no-op", "jobs/s", [1000, 1100], system=system, case="rate")
        for quarter in range(1, 5):
            made.add("pinned", "no-op", "jobs/s", [1000 / quarter], system=system, case=f"snapshot.q{quarter}")
        for share in (50, 99):
            made.add("pickup", "idle", "ms", [share / 10], system=system, case=f"idle.p{share}")
    drawn = plots.draw(made)
    assert drawn.keys() == {"drain.svg", "pinned-snapshot.svg", "pickup.svg"}
    for text in drawn.values():
        words = [element.text for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        assert {"holdfast", "pg-boss", "a < b & c"} <= set(words)


def test_paces_and_bursts_have_tables_and_a_plot() -> None:
    made = Results("reduced")
    for system, wait in (("holdfast", 2.0), ("pgqueuer", 3.0)):
        for pace in PACES:
            made.add("pickup", pace.words, "ms", [wait], system=system, case=f"{pace.case}.p50")
            made.add("pickup", pace.words, "ms", [wait * 4], system=system, case=f"{pace.case}.p99")
        for which in ("each", "last"):
            made.add("pickup", "burst", "ms", [wait], system=system, case=f"{BURSTS[0].case}.{which}.p50")
    page = "<!-- bench: paces -->\n<!-- /bench -->\n<!-- bench: bursts -->\n<!-- /bench -->\n"
    text = document.render(page, made)
    assert "| pgqueuer | 3.00 / 12.0 | 3.00 / 12.0 | 3.00 / 12.0 | 3.00 / 12.0 | 3.00 / 12.0 |" in text
    assert "| 4 jobs by one call, 4 workers asleep | holdfast | 2.00 | 2.00 |" in text
    assert plots.draw(made).keys() == {"pickup-paces.svg"}
    assert "pace" not in document.render("<!-- bench: others -->\n<!-- /bench -->", made)


def test_workflows_have_a_table_and_plots() -> None:
    made = Results("reduced")
    for system, rate in (("holdfast", 8000), ("dbos", 130)):
        for case in CASES:
            made.add("workflows", case.words, "instances/s", [rate / case.steps], system=system, case=case.name)
    text = document.render("<!-- bench: workflows -->\n<!-- /bench -->\n", made)
    assert "| instances/s | 1 no-op step, 20 in flight |" in text
    assert "| holdfast | 8,000 | 8,000 | 1,600 | 1,600 |\n| dbos | 130 | 130 | 26.0 | 26.0 |" in text
    assert plots.draw(made).keys() == {"workflows-1.svg", "workflows-5.svg"}
    assert "no-op step" not in document.render("<!-- bench: others -->\n<!-- /bench -->", made)


def test_events_have_a_table_by_destination() -> None:
    made = Results("reduced")
    made.add("relay", "to nats", "events/s", [20_000, 22_000], at_least(8_000), case="rate.nats")
    made.add("relay", "to nats, ordered", "events/s", [17_000], at_least(5_000), case="rate.nats.ordered")
    made.add("relay", "to redis, ordered", "events/s", [20_000], case="rate.redis.ordered")
    made.add("relay", "lag, median", "ms", [2], case="lag.p50")
    text = document.render("<!-- bench: relay -->\n<!-- /bench -->\n", made)
    assert "| nats | 21,000 events/s (20,000–22,000) | 17,000 events/s |\n| redis | – | 20,000 events/s |" in text
    others = document.render("<!-- bench: others -->\n<!-- /bench -->", made)
    assert "lag, median" in others and "redis" not in others


def test_an_axis_that_was_measured_apart_takes_the_place_of_the_same_in_the_run(copied: Path) -> None:
    apart = Results("reduced", conditions="on another day")
    apart.add("wake", "measured apart", "µs", [1.5], case="apart")
    apart.settings["peer"] = "as its page says"
    apart.write(copied.with_name("bench-wake.json"))
    page = document.files(copied)[copied.with_name("performance.md")]
    assert "From another run, the axis wake: on another day.\n" in page
    assert [line for line in page.splitlines() if line.startswith("| wake |")] == [
        "| wake | measured apart | 1.50 µs | 1 |"
    ]
    assert "- **peer**: as its page says\n" in page and "| drain |" in page


def test_a_goal_that_failed_says_so() -> None:
    made = Results("reduced")
    made.add("workflows", "share", "", [0.2], at_least(0.5, fails=0.25), case="steps.1.c100.share")
    assert "| ≥ 0.50 | **failed** |" in document.render("<!-- bench: targets -->\n<!-- /bench -->", made)


def test_nothing_is_drawn_of_nothing() -> None:
    assert plots.draw(Results("reduced")) == {}
