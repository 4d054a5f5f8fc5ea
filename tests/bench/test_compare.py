"""Comparing two commits: what the pairs of turns say, in which order they come, and what is compared with what."""

import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.__main__ import KNOWN
from bench.compare import contest, sides
from bench.compare.alternation import pairs
from bench.compare.contest import Contest, cases_of
from bench.compare.disturbance import Disturbance
from bench.compare.ratios import BETTER, NONE, UNKNOWN, WORSE, Ratios, interval
from bench.compare.report import Report
from bench.compare.sides import NoSuchCommit, Side
from bench.turn.cases import AXES
from bench.turn.measured import Measured, read, write
from bench.turn.start import TurnFailed

THIS = Side("this", "this tree", Path("this"))
OTHER = Side("145a3ad", "145a3ad and its subject", Path("other"))


def turns_of(mean: float, spread: float, seed: int, number: int = 15) -> list[float]:
    dice = random.Random(seed)
    return [mean * dice.uniform(1 - spread, 1 + spread) for _ in range(number)]


# Intervals and verdicts


@pytest.mark.parametrize(
    ("number", "expected"), [(5, None), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (15, (4, 12)), (25, (8, 18))]
)
def test_the_interval_is_that_of_the_tables(number: int, expected: tuple[float, float] | None) -> None:
    values = [float(n) for n in range(1, number + 1)]
    random.Random(7).shuffle(values)
    assert interval(values) == expected


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(20)
    held = 0
    for _ in range(2_000):
        found = interval([dice.lognormvariate(0, 0.2) for _ in range(15)])
        assert found is not None
        held += found[0] <= 1 <= found[1]
    assert 0.95 <= held / 2_000 <= 0.98


@pytest.mark.parametrize("more_is_better", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_a_planted_regression_of_ten_percent_is_called_worse(seed: int, more_is_better: bool) -> None:
    factor = 0.9 if more_is_better else 1.1
    these, others = turns_of(50_000 * factor, 0.04, seed), turns_of(50_000, 0.04, seed + 100)
    assert Ratios(these, others, more_is_better).verdict == WORSE
    assert Ratios(others, these, more_is_better).verdict == BETTER


@pytest.mark.parametrize("more_is_better", [True, False])
@pytest.mark.parametrize("factor", [0.99, 1.0, 1.01])
def test_one_percent_is_not(factor: float, more_is_better: bool) -> None:
    for seed in range(200):
        ratios = Ratios(turns_of(factor, 0.02, seed), turns_of(1.0, 0.02, seed + 1_000), more_is_better)
        assert ratios.verdict == NONE, seed


def test_much_noise_is_hardly_ever_taken_for_a_regression() -> None:
    verdicts = [Ratios(turns_of(1.0, 0.2, seed), turns_of(1.0, 0.2, -seed - 1), True).verdict for seed in range(2_000)]
    assert verdicts.count(WORSE) <= 20


def test_an_interval_that_reaches_into_three_percent_is_no_regression() -> None:
    others = [100.0] * 15
    assert Ratios([96.0] * 11 + [98.0] * 4, others, True).verdict == NONE
    assert Ratios([96.0] * 12 + [98.0] * 3, others, True).verdict == WORSE


def test_what_a_drift_does_to_both_cancels_out() -> None:
    drift = [1.0 - n / 20 for n in range(15)]
    assert Ratios([1_000 * d for d in drift], [1_000 * d for d in drift], True).interval == (1.0, 1.0)


def test_five_pairs_are_too_few_for_a_verdict() -> None:
    assert Ratios([1.0] * 5, [2.0] * 5, True).verdict == UNKNOWN


# Turns


def test_sides_change_places_from_turn_to_turn() -> None:
    order = [(pair.turn, pair.case, pair.this_first) for pair in pairs(3, ["drain", "enqueue"])]
    assert order == [
        (1, "drain", True), (1, "enqueue", True),
        (2, "drain", False), (2, "enqueue", False),
        (3, "drain", True), (3, "enqueue", True),
    ]  # fmt: skip


def drained(rate: float, cpu: float = 20.0) -> list[Measured]:
    return [Measured("drain", "rate", "no-op jobs", "jobs/s", [rate], True, cpu)]


class Turns:
    """Turns that take no time, and fail as they are told."""

    def __init__(self, fails: Sequence[Side] = ()) -> None:
        self.order: list[str] = []
        self._fails = fails

    async def __call__(self, side: Side, case: str) -> list[Measured]:
        self.order.append(side.name)
        if side in self._fails:
            raise TurnFailed("it has no such thing")
        return drained(80.0 if side is THIS else 100.0)


class Stolen(Disturbance):
    """What others had in each pair, one after the other; nothing once the list is over."""

    def __init__(self, shares: list[float]) -> None:
        self._share = shares.pop(0) if shares else 0.0

    @property
    def share(self) -> float:
        return self._share


def quiet() -> Disturbance:
    return Stolen([])


async def test_a_contest_pairs_turns_and_finds_what_is_worse() -> None:
    turns, report = Turns(), Report("this", "145a3ad")
    await Contest(THIS, OTHER, turns, report, quiet).run(["drain"], 6)
    assert turns.order == ["this", "145a3ad", "145a3ad", "this"] * 3
    assert [line.case for line in report.worse] == ["rate"]
    assert report.failed
    table = report.table()
    assert re.search(r"0\.800 +0\.800–0\.800 +worse", table)
    assert "Worse by more than 3%, with all of the interval: drain: no-op jobs." in table


async def test_a_case_that_the_other_commit_cannot_run_is_given_up_and_named() -> None:
    turns, report = Turns([OTHER]), Report("this", "145a3ad")
    await Contest(THIS, OTHER, turns, report, quiet).run(["drain"], 6)
    assert turns.order == ["this", "145a3ad", "145a3ad"]
    assert "drain failed with the source of 145a3ad: it has no such thing" in report.table()
    assert report.failed, "nothing was compared"
    report.add(drained(100), drained(100))
    assert not report.failed, "something was, and that the other could not do the rest is no fault of this tree"


async def test_a_case_that_this_tree_cannot_run_fails_the_run() -> None:
    report = Report("this", "145a3ad")
    await Contest(THIS, OTHER, Turns([THIS]), report, quiet).run(["drain"], 3)
    report.add(drained(100), drained(100))
    assert report.failed


def test_cpu_stands_beside_the_rate_and_does_not_decide() -> None:
    report = Report("this", "145a3ad")
    for _ in range(6):
        report.add(drained(100, cpu=30.0), drained(100, cpu=20.0))
    (line,) = report.lines.values()
    assert line.cpu and line.cpu.median == 1.5 and line.cpu.verdict == WORSE
    assert re.search(r"no difference shown +30\.0 +20\.0 +1\.500 +1\.500–1\.500", report.table())
    assert not report.failed


def test_of_waits_the_median_and_the_95th_percentile_are_compared() -> None:
    report = Report("this", "145a3ad")
    waits = [float(n) for n in range(1, 101)]
    for _ in range(6):
        report.add([Measured("pickup", "pace.2ms", "a job every 2 ms", "ms", waits, False, 9.0)],
                   [Measured("pickup", "pace.2ms", "a job every 2 ms", "ms", waits, False, 9.0)])  # fmt: skip
    half, most = report.lines.values()
    assert (half.case, half.these[0], most.case, most.these[0]) == ("pace.2ms.p50", 50.5, "pace.2ms.p95", 95.0)
    assert half.cpu and not most.cpu


def test_a_report_can_be_written_and_read_by_others(tmp_path: Path) -> None:
    report = Report("this", "145a3ad")
    report.add(drained(100), drained(50))
    report.write(tmp_path / "new" / "compare.json")
    assert '"ratio": 2.0' in (tmp_path / "new" / "compare.json").read_text()


def test_what_a_turn_says_comes_through_whole() -> None:
    said = [*drained(3.5), Measured("pickup", "burst", "a burst", "ms", [1.0, 2.0], False, None)]
    assert read(write(said)) == said


# What can be compared


def test_axes_that_can_be_compared_are_axes() -> None:
    assert AXES.keys() <= KNOWN.keys()
    assert cases_of(["drain", "pickup"]) == ["drain", "paces", "bursts"]
    assert set(cases_of([])) == {case for cases in AXES.values() for case in cases}


def test_others_are_refused_with_a_sentence() -> None:
    with pytest.raises(contest.Incomparable, match=r"ring, wal cannot be compared .* what can is drain, enqueue, "):
        cases_of(["drain", "ring", "wal"])


# The two sides


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With one commit, and a change that is not committed."""
    for name in ("src/holdfast/__init__.py", "bench/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("committed")
    monkeypatch.setattr(sides, "ROOT", tmp_path)
    monkeypatch.setattr(sides, "BUILD", tmp_path / "build")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "The first"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
        subprocess.run(git, cwd=tmp_path, check=True)
    for name in ("src/holdfast/__init__.py", "bench/__init__.py"):
        (tmp_path / name).write_text("changed")
    return tmp_path


def test_each_side_has_its_source_and_both_this_trees_benchmarks(repository: Path) -> None:
    with sides.sides("HEAD") as (this, other):
        texts = {
            side.name: [(side.folder / name / "__init__.py").read_text() for name in ("src/holdfast", "bench")]
            for side in (this, other)
        }
        assert list(texts.values()) == [["changed", "changed"], ["committed", "changed"]]
        assert this.words.endswith("with changes)") and other.words.endswith("The first")
        assert other.environment["PYTHONPATH"].startswith(f"{other.folder}/src:")
        # The run goes on with what it began with.
        (repository / "src/holdfast/__init__.py").write_text("changed again")
        assert (this.folder / "src/holdfast/__init__.py").read_text() == "changed"
    assert list((repository / "build").iterdir()) == []


def test_the_folders_are_gone_after_an_interrupt(repository: Path) -> None:
    with pytest.raises(KeyboardInterrupt), sides.sides("HEAD"):
        assert list((repository / "build").iterdir())
        raise KeyboardInterrupt
    assert list((repository / "build").iterdir()) == []


@pytest.mark.parametrize("commit", ["nothing-of-this-name", "--help", "HEAD:src"])
def test_what_is_no_commit_is_refused(repository: Path, commit: str) -> None:
    with pytest.raises(NoSuchCommit, match="There is no commit"), sides.sides(commit):
        pass
    assert not (repository / "build").exists()


async def test_pairs_in_which_others_had_the_machine_are_measured_again() -> None:
    turns, report, shares = Turns([]), Report("this", "other"), [0.0, 0.3, 0.2, 0.01]
    await Contest(THIS, OTHER, turns, report, lambda: Stolen(shares)).run(["drain"], 6)
    (line,) = report.lines.values()
    assert len(line.these) == 6
    assert (report.repeated, report.disturbed) == (2, 0)
    assert "2 pairs of turns were measured again" in report.table()


async def test_if_others_have_the_machine_all_the_time_the_pairs_count_in_the_end() -> None:
    report = Report("this", "other")
    await Contest(THIS, OTHER, Turns([]), report, lambda: Stolen([0.5])).run(["drain"], 6)
    (line,) = report.lines.values()
    assert len(line.these) == 6
    assert (report.repeated, report.disturbed) == (6, 6)


def test_a_machine_that_is_all_ours() -> None:
    assert 0 <= Disturbance().share <= 1
