"""The recount must see what it is there to see: each fault is planted in an honest set of evidence."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.demo import recount as module
from holdfast.demo.recount import Evidence, Row, recount
from holdfast.demo.report import exit_code, summary

KINDS = ("charge", "send_receipt", "index_order")


def witness(what: str, order: int, fence: int, key: str | None = None) -> dict[str, Any]:
    return {
        "what": what, "order": order, "kind": "send_receipt", "key": key or f"send_receipt:{order}",
        "job": f"job-{order}-send_receipt", "fence": fence, "generation": 1, "pid": 1, "t": 1000.0,
    }  # fmt: skip


def honest() -> Evidence:
    """Two committed orders and a poisonous job, one rolled back, one repeated; a receipt recovered after a kill."""
    ids = {(order, kind): f"job-{order}-{kind}" for order in (1, 2) for kind in KINDS}
    jobs = {order: {kind: ids[order, kind] for kind in KINDS} for order in (1, 2)}
    jobs[1]["check_fraud"] = "job-1-check_fraud"
    producer: list[dict[str, Any]] = [
        {"what": "began", "t": 1000.0},
        *({"what": "intent", "t": 1000.0, "order": n, "ends": "commit", "jobs": list(KINDS)} for n in (1, 2, 3)),
        {"what": "committed", "t": 1000.0, "order": 1, "jobs": jobs[1]},
        {"what": "committed", "t": 1000.0, "order": 2, "jobs": jobs[2]},
        {"what": "repeated", "t": 1000.0, "order": 2, "jobs": jobs[2]},
        {"what": "rolled back", "t": 1000.0, "order": 3},
        {"what": "ended", "t": 1002.0},
    ]
    rows = [Row(id, order, kind, "completed", 1, 1002.0) for (order, kind), id in ids.items()]
    rows[1] = replace(rows[1], generation=2)
    return Evidence(
        producer=producer,
        kills=[{"what": "killed", "t": 1001.0, "held": [{"id": "job-1-send_receipt", "generation": 1}]}],
        witnessed=[
            witness("begun", 1, 10),
            witness("begun", 2, 11),
            witness("posted", 2, 11),
            witness("done", 2, 11),
            witness("begun", 1, 12),
            witness("posted", 1, 12),
            witness("done", 1, 12),
        ],
        orders=frozenset({1, 2}),
        effects=[(order, kind) for order in (1, 2) for kind in ("charge", "index_order")],
        rows=[*rows, Row("job-1-check_fraud", 1, "check_fraud", "dead_letter", 3, 1001.0)],
    )


def numbers(evidence: Evidence) -> dict[str, float]:
    return recount(evidence)["numbers"]


def test_honest_evidence_is_found_in_order() -> None:
    found = recount(honest())
    assert found["numbers"] == {
        "enqueued": 7,
        "completed": 6,
        "dead_letter": 1,
        "lost": 0,
        "duplicate_effects": 0,
        "recovered_after_kill": 1,
        "rolled_back_jobs_found": 0,
        "jobs_per_second": 3.0,
    }
    assert exit_code(found["numbers"]) == 0
    assert "All guarantees held." in summary(found["numbers"], found["details"])


def _without(rows: Any, *, index: int) -> Any:
    return [row for number, row in enumerate(rows) if number != index]


LOST = {
    "the row of a job is gone": lambda e: replace(e, rows=_without(e.rows, index=1)),
    "a row in the database is gone": lambda e: replace(e, effects=e.effects[1:]),
    "a letter was never posted": lambda e: replace(
        e, witnessed=[line for line in e.witnessed if (line["what"], line["order"]) != ("posted", 1)]
    ),
    "a job has not ended": lambda e: replace(e, rows=[replace(e.rows[0], status="processing"), *e.rows[1:]]),
    "a poisonous job is said to be completed": lambda e: replace(
        e, rows=[*e.rows[:-1], replace(e.rows[-1], status="completed")]
    ),
}


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_job_is_seen(fault: str) -> None:
    found = recount(LOST[fault](honest()))
    assert found["numbers"]["lost"] == 1
    assert exit_code(found["numbers"]) == 1
    assert "Guarantees did NOT hold" in summary(found["numbers"], found["details"])


def test_an_order_that_vanished_loses_all_its_jobs() -> None:
    assert numbers(replace(honest(), orders=frozenset({1})))["lost"] == 3


DOUBLED = {
    "a row was written twice": lambda e: replace(e, effects=[*e.effects, (1, "charge")]),
    "a second letter under another key": lambda e: replace(
        e, witnessed=[*e.witnessed, witness("posted", 1, 9, key="send_receipt:1-again")]
    ),
    "a once block was entered after its marker": lambda e: replace(
        e, witnessed=[*e.witnessed, witness("posted", 1, 13)]
    ),
    "an effect of a failed attempt stayed": lambda e: replace(e, effects=[*e.effects, (1, "check_fraud")]),
    "one key made two jobs": lambda e: replace(e, rows=[*e.rows, replace(e.rows[0], id="another")]),
}


@pytest.mark.parametrize("fault", DOUBLED)
def test_a_doubled_effect_is_seen(fault: str) -> None:
    found = numbers(DOUBLED[fault](honest()))
    assert found["duplicate_effects"] == 1
    assert exit_code(found) == 1


def test_a_repeat_before_the_marker_is_shown_but_is_one_letter() -> None:
    evidence = honest()
    evidence.witnessed = [witness("posted", 1, 10), *evidence.witnessed]
    found = recount(evidence)
    assert found["numbers"]["duplicate_effects"] == 0
    assert found["details"]["absorbed_repeats"] == 1
    assert "This happened once" in " ".join(summary(found["numbers"], found["details"]).split())


def test_a_late_request_of_a_stale_owner_is_refused_by_its_fence() -> None:
    evidence = honest()
    evidence.witnessed = [*evidence.witnessed, witness("posted", 1, 10)]
    assert numbers(evidence)["duplicate_effects"] == 0


GHOSTS = {
    "a job": lambda e: replace(e, rows=[*e.rows, Row("ghost", 3, "charge", "completed", 1, 1001.0)]),
    "an effect": lambda e: replace(e, effects=[*e.effects, (3, "charge")]),
    "a letter": lambda e: replace(e, witnessed=[*e.witnessed, witness("posted", 3, 20)]),
    "the order itself": lambda e: replace(e, orders=e.orders | {3}),
    "a job of an order that nobody placed": lambda e: replace(
        e, rows=[*e.rows, Row("ghost", 99, "charge", "completed", 1, 1001.0)]
    ),
}


@pytest.mark.parametrize("fault", GHOSTS)
def test_what_was_rolled_back_is_seen_when_it_appears(fault: str) -> None:
    found = numbers(GHOSTS[fault](honest()))
    assert found["rolled_back_jobs_found"] == 1
    assert exit_code(found) == 1


def test_a_job_that_ended_under_the_killed_workers_own_generation_was_not_recovered() -> None:
    evidence = honest()
    evidence.kills = [{"what": "killed", "t": 1.0, "held": [{"id": "job-1-send_receipt", "generation": 2}]}]
    assert numbers(evidence)["recovered_after_kill"] == 0
    assert exit_code(numbers(evidence)) == 1


def test_what_became_of_every_job_that_a_killed_worker_held() -> None:
    evidence = honest()
    held = ["job-1-send_receipt", "job-1-charge", "job-1-check_fraud", "job-2-charge", "stock 1", "stock 2"]
    evidence.kills = [
        {"what": "killed", "t": 1.0, "held": [{"id": id, "generation": 1} for id in held]},
        {"what": "killed", "t": 2.0, "held": [{"id": "job-1-send_receipt", "generation": 2}]},
    ]
    rows = {row.id: row for row in evidence.rows}
    rows["job-1-check_fraud"] = replace(rows["job-1-check_fraud"], generation=1)
    rows["job-2-charge"] = replace(rows["job-2-charge"], status="cancelled", generation=2)
    evidence.rows = list(rows.values())
    evidence.scheduled = [Row(f"stock {n}", 0, "count_stock", "completed", n) for n in (1, 2)]
    found = recount(evidence)
    details = found["details"]
    assert (details["held_when_killed"], found["numbers"]["recovered_after_kill"]) == (6, 2)
    assert (details["held_completed"], details["held_dead"], details["held_by_hand"]) == (2, 1, 1)
    said = " ".join(summary(found["numbers"], details).split())
    assert (
        "2 recovered of the 6 jobs that workers held when they were killed (2 kills with SIGKILL, supervisor and "
        "process at once). Other workers ran them. Of the others, 2 had completed just before the kill, 1 had no "
        "attempts left, 1 ended by hand"
    ) in said


def test_nothing_is_said_of_others_if_all_were_recovered() -> None:
    found = recount(honest())
    assert "Of the others" not in summary(found["numbers"], found["details"])


@pytest.mark.parametrize(("stored", "enqueued"), [(frozenset({1, 2, 3}), 10), (frozenset({1, 2}), 7)])
def test_an_outcome_that_nobody_heard_is_decided_by_the_orders(stored: frozenset[int], enqueued: int) -> None:
    evidence = honest()
    evidence.producer = [line for line in evidence.producer if line["what"] != "rolled back"]
    evidence.orders = stored
    found = numbers(evidence)
    assert (found["enqueued"], found["lost"]) == (enqueued, enqueued - 7)


def test_each_slot_of_the_schedule_has_one_effect() -> None:
    fired = [(second, "count_stock") for second in range(1000, 1010, 2)]
    evidence = honest()
    evidence.effects = [*evidence.effects, *fired]
    found = recount(evidence)
    assert (found["numbers"], found["details"]["slots"]) == (numbers(honest()), 5)
    evidence.effects = [*evidence.effects, fired[3]]
    assert numbers(evidence)["duplicate_effects"] == 1
    evidence.effects = [name for name in evidence.effects if name != fired[3]]
    assert (numbers(evidence)["duplicate_effects"], numbers(evidence)["lost"]) == (0, 1)
    assert "Guarantees did NOT hold" in summary(numbers(evidence), recount(evidence)["details"])


def test_it_imports_nothing_of_the_library() -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert imported
    assert not [name for name in imported if name.startswith((".", "holdfast"))]
