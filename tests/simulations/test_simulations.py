"""Each simulation shows what it promises, for many seeds."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.node import ask, needs_node

pytestmark = needs_node

BENCH = Path(__file__).resolve().parents[2] / "docs" / "bench.json"


def run(module: str, name: str, seed: int = 1, **options: Any) -> Any:
    return ask("run", module=module, name=name, seed=seed, options=options)


@pytest.mark.parametrize(
    ("trouble", "state", "mails", "attempts"),
    [("none", "completed", 1, 1), ("twice", "completed", 1, 3), ("always", "dead_letter", 0, 3)],
)
def test_a_receipt(trouble: str, state: str, mails: int, attempts: int) -> None:
    found = run("receipt.js", "Receipt", trouble=trouble)
    (row,) = found["rows"]
    assert (row["state"], found["mails"], row["attempts"], row["generation"]) == (state, mails, attempts, attempts)
    assert any("renews the lease" in line for line in found["log"])


@pytest.mark.parametrize("fate", ["after", "before", "between", "frozen"])
@pytest.mark.parametrize("marker", [True, False])
def test_a_crash(fate: str, marker: bool) -> None:
    found = run("crash.js", "Crash", fate=fate, marker=marker)
    (row,) = found["rows"]
    assert (row["state"], row["attempts"], row["generation"]) == ("completed", 2, 2)
    helps = marker and fate != "between"  # the mail went out, and nothing in the database says so
    assert found["mails"] == (1 if fate == "before" or helps else 2)
    assert found["refused"] == (1 if fate == "frozen" else 0)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("order", [True, False])
def test_contention(guard: bool, order: bool) -> None:
    for seed in (1, 2, 3, 9182):
        found = run("contention.js", "Contention", seed, guard=guard, order=order)
        assert found["done"] == 36, "every job is completed"
        assert (found["doubles"] == 0) == guard, seed
        assert all(times == 1 for times in found["effects"]) == guard
        if guard:
            assert (found["disorder"] == 0) == order, seed


def test_a_seed_repeats_itself() -> None:
    runs = [run("contention.js", "Contention", seed, guard=False, order=False)["log"] for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_the_ring_moves_little_and_modulo_nearly_all() -> None:
    (added, settled, killed, noticed, drained, after) = ask(
        "members", seed=1, actions=["add", 6, "kill", 40, "drain", 6]
    )
    assert len(added["members"]) == 4
    assert added["last"]["ring"] < 0.4 * added["last"]["of"] < 0.6 * added["last"]["of"] < added["last"]["modulo"]
    assert added["twice"] == added["last"]["ring"], "until they look at the registry, its old owners believe in it, too"
    assert (settled["waiting"], settled["twice"]) == (0, 0)
    assert killed["members"] == added["members"], "nobody has noticed yet"
    assert killed["waiting"] > 0
    assert len(noticed["members"]) == 3
    assert (noticed["waiting"], noticed["twice"]) == (0, 0)
    assert len(drained["members"]) == 2
    assert drained["waiting"] > 0
    assert after["waiting"] == 0


def test_the_tuner_knows_the_benchmarks() -> None:
    """Its costs are those of docs/bench.json, which a run of the benchmarks renews."""
    figures = {
        (figure["axis"], figure["case"]): figure["median"]
        for figure in json.loads(BENCH.read_text())["figures"]
        if figure["system"] == "holdfast"
    }
    local = {"rate": 10**6, "trip": 0, "cores": 2, "hands": 20, "processes": 1}
    cases = {
        ("processes", "noop.1"): local | {"handler": 0},
        ("processes", "noop.2"): local | {"handler": 0, "processes": 2},
        ("processes", "noop.4"): local | {"handler": 0, "processes": 4},
        ("processes", "async_50.1"): local | {"handler": 50},
        ("processes", "async_50.8"): local | {"handler": 50, "processes": 8},
        ("handlers", "async.1"): local | {"handler": 1},
    }
    for name, predicted in zip(cases, ask("predict", cases=list(cases.values())), strict=True):
        assert predicted["throughput"] == pytest.approx(figures[name], rel=0.3), name
    wakes, polls = ask("predict", cases=[local | {"rate": 1}, local | {"rate": 1, "wake": False, "poll": 20}])
    assert wakes["pickup"] / 1000 == pytest.approx(figures["pickup", "idle.p50"], rel=0.3)
    assert polls["pickup"] / 1000 == pytest.approx(figures["pickup", "poll.20ms.p50"], rel=0.3)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, None),
        ({"rate": 1000}, "hands"),
        ({"rate": 1000, "handler": 0, "batch": 1, "trip": 20}, "claims"),
        ({"rate": 90_000, "handler": 0, "hands": 200, "cores": 16}, "process"),
        ({"rate": 90_000, "handler": 0, "hands": 200, "processes": 8}, "cpu"),
    ],
)
def test_the_tuner_names_the_bottleneck(settings: dict[str, int], limit: str | None) -> None:
    (predicted,) = ask("predict", cases=[settings])
    assert predicted["enough"] == (limit is None)
    if limit is not None:
        assert predicted["limit"] == limit
