"""Workflows in the benchmarks: the arithmetic of each part, and a peer's turn. No peer is installed or run here."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.pooler import direct

from bench import verdicts
from bench.figures import OURS, Results
from bench.ground import Ground, connected
from bench.peers import environment
from bench.peers.peer import PEERS, LeftOut, Peer
from bench.workflows import questions, rates
from bench.workflows.arithmetic import between, per_step, scaled, waits
from bench.workflows.cases import BARE, CASES, Case
from bench.workflows.rates import Rates, Size

pytestmark = pytest.mark.direct  # benchmarks measure a server, not the way to it

JOBS = 40


class Toy(Peer):
    """A queue of our own, whose driver runs in our own environment."""

    @property
    def folder(self) -> Path:
        return Path(__file__).parent / "toy"


TOY = Toy("toy", JOBS, JOBS)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy is the only peer, and needs no environment."""

    async def command(peer: Peer) -> list[str]:
        return [sys.executable, str(peer.driver)]

    monkeypatch.setattr(rates, "BESIDE", ("toy",))
    monkeypatch.setitem(PEERS, "toy", TOY)
    monkeypatch.setattr(environment, "command", command)
    monkeypatch.setattr(rates, "REDUCED", Size(2, {0: 8, 1: 8, 5: 8}, {1: JOBS, 5: JOBS}))


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Ground]:
    made = Ground(direct(database_url), None)
    await made.prepare()
    yield made
    await made.close()


def ours(shares: dict[str, float]) -> Rates:
    made = Rates(OURS)
    for turn in (1, 2, 4):
        # A machine that is four times as fast in one turn as in another leaves the ratios as they are.
        made.add(BARE, 10_000.0 * turn)
        for case in CASES:
            made.add(case, 10_000.0 * turn * shares.get(case.name, 1.0))
    return made


def test_shares_are_of_the_same_turn() -> None:
    results = Results("reduced")
    ours({"steps.1.c100": 0.6, "steps.5.c100": 0.15}).report_shares(results)
    one, five = (results.find("workflows", f"steps.{steps}.c100.share") for steps in (1, 5))
    assert one and one.values == pytest.approx([0.6] * 3) and one.verdict == "met"
    assert five and five.values == pytest.approx([0.15] * 3) and five.verdict == "MISSED"


@pytest.mark.parametrize(("case", "share"), [("steps.1.c100", 0.24), ("steps.5.c100", 0.09)])
def test_half_of_a_goal_is_a_failure(case: str, share: float) -> None:
    results = Results("reduced")
    ours({case: share}).report_shares(results)
    assert [figure.verdict for figure in results.missed] == ["FAILED"]


def test_only_a_hundred_in_flight_have_a_goal_against_the_bare_drain() -> None:
    results = Results("reduced")
    ours({}).report_shares(results)
    assert {f.case for f in results.figures if f.target} == {"steps.1.c100.share", "steps.5.c100.share"}


@pytest.mark.parametrize(("rate", "verdict"), [(1_000.0, "met"), (999.0, "MISSED")])
def test_ours_are_to_be_ten_times_the_best_peer(rate: float, verdict: str) -> None:
    results = Results("reduced")
    case = Case(5, 20)
    for system, value in ((OURS, rate), ("absurd", 100.0), ("dbos", 40.0)):
        rated = Rates(system)
        rated.add(case, value)
        rated.report(results, CASES)
    verdicts.compare(results)
    best = results.find("workflows", "steps.5.c20.vs.best")
    assert best and best.median == rate / 100 and best.verdict == verdict and "absurd" in best.name


# The parts that only ours is measured for


def test_a_lone_step_is_the_time_from_one_mark_to_the_next() -> None:
    assert between([10.0, 10.5, 10.75]) == [500, 250]


def test_replay_is_the_difference_of_the_medians_without_the_first() -> None:
    long = waits([0.0, 1.0, 2.0, 3.0], [0.9, 1.012, 2.013, 3.014])
    short = waits([0.0, 1.0, 2.0, 3.0], [0.8, 1.003, 2.003, 3.009])
    assert per_step(long, short, steps=1_000) == pytest.approx(10.0)


def test_a_signal_without_an_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        waits([0.0, 1.0], [0.5])


def test_fewer_sleepers_are_scaled_to_the_number_of_the_target() -> None:
    assert scaled(1.5, measured=10_000, stated=100_000) == pytest.approx(15.0)


async def test_the_questions_fit_the_tables(place: Ground) -> None:
    async with place.database() as url, connected(url) as watch:
        for question in (questions.STEPS, questions.PARKED, questions.MARKS):
            assert await watch.fetchval(question) == 0
        assert await watch.fetchval(questions.LAST_END) is None
        assert await watch.fetch(questions.RESULTS) == await watch.fetch(questions.FAMILY) == []


# Peers


@pytest.mark.parametrize("name", rates.BESIDE)
def test_a_peer_can_be_asked_for_its_steps(name: str) -> None:
    assert PEERS[name].sql("steps").startswith("-- ")
    driver = PEERS[name].driver.read_text()
    assert "speech.steps()" in driver and "speech.flight(" in driver


@pytest.mark.usefixtures("beside")
async def test_peers_are_measured_without_ours(place: Ground) -> None:
    results = Results("reduced")
    await rates.run(place, results, False, None)
    assert [(f.system, f.case, len(f.values)) for f in results.figures] == [("toy", case.name, 2) for case in CASES]
    assert {name.partition(",")[2] for name in results.settings} == {
        " workflows, 20 in flight", " workflows, 100 in flight",
    }  # fmt: skip
    assert results.settings["toy, workflows, 20 in flight"].endswith(": 20 at a time")


@pytest.mark.usefixtures("beside")
async def test_ours_take_turns_with_the_peers(place: Ground) -> None:
    asked: list[tuple[str, int]] = []

    async def once(ground: Ground, case: Case, jobs: int) -> float:
        asked.append((case.name, jobs))
        return 1_000.0 / (case.steps + 1)

    results = Results("reduced")
    await rates.run(place, results, False, once)
    assert asked == [(case.name, 8) for case in (BARE, *CASES)] * 2
    one, five = (results.find("workflows", f"steps.{steps}.c100.share") for steps in (1, 5))
    assert one and one.values == [0.5, 0.5] and five and five.values == pytest.approx([1 / 6, 1 / 6])


@pytest.mark.usefixtures("beside")
async def test_a_step_that_is_not_recorded_is_noticed(place: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAULT", "forgets")
    results = Results("reduced")
    await rates.run(place, results, False, None)
    assert not results.figures
    assert f"{JOBS} instances of 1 steps have ended, and {JOBS - 1} steps are recorded" in results.settings["toy"]


@pytest.mark.usefixtures("beside")
async def test_a_peer_that_cannot_be_installed_is_left_out(
    place: Ground, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def command(peer: Peer) -> list[str]:
        raise LeftOut("toy 1.0 could not be installed: no such version")

    monkeypatch.setattr(environment, "command", command)
    results = Results("reduced")
    await rates.run(place, results, False, None)
    assert results.settings["toy"] == "left out of workflows: toy 1.0 could not be installed: no such version"
    assert "toy is left out of workflows" in capsys.readouterr().out
