"""Figures keep what they were given; verdicts and comparisons follow from them."""

from pathlib import Path

import pytest

from bench import verdicts
from bench.figures import Results, at_least, at_most


def results() -> Results:
    made = Results("reduced", "PostgreSQL 18")
    made.add("drain", "no-op jobs", "jobs/s", [30_000, 50_000, 40_000], at_least(15_000), case="rate")
    made.add("drain", "WAL", "bytes/job", [700], at_most(600), case="wal")
    made.add("drain", "no-op jobs", "jobs/s", [10_000, 10_000], system="pgqueuer", case="rate")
    made.add("drain", "no-op jobs", "jobs/s", [32_000], system="pg-boss", case="rate")
    made.add("ceiling", "our statements", "jobs/s", [90_000], system="pgbench", case="rate")
    return made


def test_verdicts_are_of_the_median() -> None:
    rate, wal, *others = results().figures
    assert (rate.median, rate.verdict, rate.spread) == (40_000, "met", "(30,000–50,000)")
    assert (wal.verdict, wal.spread) == ("MISSED", "")
    assert {figure.verdict for figure in others} == {""}
    assert results().missed == [wal]


@pytest.mark.parametrize(("value", "verdict"), [(0.5, "met"), (0.49, "MISSED"), (0.25, "MISSED"), (0.24, "FAILED")])
def test_a_goal_may_have_a_limit_beyond_which_it_fails(tmp_path: Path, value: float, verdict: str) -> None:
    made = Results("reduced")
    made.add("workflows", "1 step ÷ no-op jobs", "", [value], at_least(0.5, fails=0.25))
    made.write(tmp_path / "bench.json")
    for figures in (made.figures, Results.read(tmp_path / "bench.json").figures):
        assert [figure.verdict for figure in figures] == [verdict]
    assert bool(made.missed) is (verdict != "met")


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    written = results()
    written.settings["pg-boss"] = "12, 2,000 jobs a fetch"
    written.failures["ring"] = "no room"
    written.write(tmp_path / "new" / "bench.json")
    read = Results.read(tmp_path / "new" / "bench.json")
    assert read.figures == written.figures
    assert (read.settings, read.failures) == (written.settings, written.failures)
    assert read.table() == written.table()


def test_the_table_shows_ratios_and_failures() -> None:
    made = results()
    made.failures["ring"] = "no room"
    lines = made.table().splitlines()
    assert "4.00" in next(line for line in lines if "pgqueuer" in line).split()
    assert lines[-1] == "ring could not be measured: no room"


def test_ours_is_held_against_the_best_peer_and_no_yardstick() -> None:
    made = results()
    verdicts.compare(made)
    best = made.find("drain", "rate.vs.best")
    assert best and best.median == 1.25 and best.verdict == "met" and "pg-boss" in best.name
    one = made.find("drain", "rate.vs.pgqueuer")
    assert one and one.median == 4 and one.verdict == "met"
    assert not made.find("enqueue", "bulk.vs.best")


def test_of_waits_the_shortest_is_the_best() -> None:
    made = Results("reduced")
    for system, wait in (("holdfast", 3.0), ("pg-boss", 4.0), ("pgqueuer", 3.2)):
        made.add("pickup", "a job every 50 ms", "ms", [wait], system=system, case="pace.50ms.p50")
    verdicts.compare(made)
    best = made.find("pickup", "pace.50ms.p50.vs.best")
    assert best and best.median == pytest.approx(3.0 / 3.2) and best.verdict == "met" and "pgqueuer" in best.name


def test_without_peers_nothing_is_compared() -> None:
    made = Results("reduced")
    made.add("drain", "no-op jobs", "jobs/s", [30_000], case="rate")
    verdicts.compare(made)
    assert len(made.figures) == 1


@pytest.mark.parametrize("comparison", verdicts.COMPARISONS, ids=lambda c: f"{c.axis}.{c.name}")
def test_a_comparison_can_be_missed(comparison: verdicts.Comparison) -> None:
    made = Results("reduced")
    made.add(comparison.axis, "ours", "", [1.0], case=comparison.case)
    theirs = 1.0 if comparison.target.at_least else 0.9
    made.add(comparison.axis, "theirs", "", [theirs], case=comparison.theirs, system=comparison.only or "another")
    verdicts.compare(made)
    found = made.find(comparison.axis, comparison.name)
    assert found and found.verdict == "MISSED"
