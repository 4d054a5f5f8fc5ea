"""From rows to a story, and to words."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest

from holdfast.journal import telling
from holdfast.journal.story import Incident, jumps, story

NIGHT = datetime(2031, 3, 9, 3, 11, 58, tzinfo=UTC)


def row(
    what: str, subject: str = "", after: float = 0, actor: str | None = None, count: int = 1,
    lasted: float | None = None, **details: Any,
) -> Incident:  # fmt: skip
    at = NIGHT + timedelta(seconds=after)
    until = at + timedelta(seconds=lasted) if lasted is not None else None
    return Incident(at, until, what, (subject,), actor, count, details)


def told(*rows: Incident) -> list[str]:
    return [f"{each.at:%H:%M:%S}  {each.text}" for each in story(rows)]


def test_the_story_of_a_night() -> None:
    assert told(
        row("worker.died", "web-2/411", how="signal SIGKILL", held=14, running=3),
        row("database.away", "web-1", 6, lasted=6.2, count=4),
        row("database.away", "web-3", 7.5, lasted=3, count=5),
        row("jobs.swept", "web-2/411", 91, count=10, retried=10),
        row("jobs.swept", "web-2/411", 101, count=4, retried=3, dead=1),
        row("dead_letters.burst", "a1", 122, count=100, lasted=50, queue="mail", kind="send", error="ConnectionError",
            place="shop.mail:send"),
        row("dead_letters.burst", "a1", 182, count=112, lasted=59, queue="mail", kind="send", error="ConnectionError",
            place="shop.mail:send"),
        row("queue.paused", "mail", 493, "ops@web-1"),
        row("queue.paused", "reports", 494, "ops@web-1"),
        row("jobs.revived", "mail", 600, "ann", count=1000, kinds=["send"]),
        row("jobs.revived", "mail", 630, "ann", count=212, kinds=["send"]),
        row("queue.resumed", "mail", 1792, "ops@web-1"),
    ) == [
        "03:11:58  worker web-2/411 died (signal SIGKILL); it held 14 jobs",
        "03:12:04  database away for 6.2 s, seen by 9",
        "03:13:29  14 jobs of web-2/411 swept: 13 retried, 1 dead",
        "03:14:00  mail: 212 dead letters, ConnectionError in shop.mail:send",
        "03:20:11  ops@web-1 paused mail until 03:41:50",
        "03:20:12  ops@web-1 paused reports",
        "03:21:58  ann revived 1,212 jobs of mail (send)",
    ]  # fmt: skip


def test_a_deploy_is_two_lines_and_a_row_that_was_written_twice_is_one() -> None:
    rows = [row("worker.drained", f"old-{n}", n) for n in range(5)]
    rows += [row("worker.started", f"new-{n}", 10 + n) for n in range(5)]
    assert told(*rows, row("worker.started", "new-4", 14.5)) == [
        "03:11:58  5 workers drained: old-0, old-1, old-2 and 2 more",
        "03:12:08  5 workers started: new-0, new-1, new-2 and 2 more",
    ]
    died = row("worker.died", "w1", how="exit code 1", held=0)
    assert told(died, died) == ["03:11:58  worker w1 died (exit code 1); it held nothing"]


def test_a_worker_that_is_started_after_a_death_is_told_after_it() -> None:
    assert told(
        row("worker.started", "a"), row("worker.died", "a", 1, how="exit code 1", held=0), row("worker.started", "b", 2)
    ) == [
        "03:11:58  worker a started",
        "03:11:59  worker a died (exit code 1); it held nothing",
        "03:12:00  worker b started",
    ]


def test_two_pauses_are_two_stories_and_who_resumed_is_said_if_it_was_somebody_else() -> None:
    assert told(
        row("queue.paused", "mail", 0, "ann"),
        row("queue.resumed", "mail", 60, "bob"),
        row("queue.paused", "mail", 120, "ann"),
        row("worker.absent", "w1", 130),
        row("worker.present", "w1", 140),
        row("queue.resumed", "slow", 150, "bob"),
    ) == [
        "03:11:58  ann paused mail until 03:12:58 (bob)",
        "03:13:58  ann paused mail",
        "03:14:08  worker w1 did not run until 03:14:18; others got its buckets",
        "03:14:28  bob resumed slow",
    ]


def test_what_came_too_fast_is_told_as_a_number() -> None:
    assert told(row("worker.died", "", count=480, held=3, folded=True)) == ["03:11:58  480 more workers died"]


def test_kinds_that_this_release_does_not_know_are_told_as_they_are() -> None:
    assert told(row("moon.landed", "eagle", actor="neil"), row("x.y", "", count=3)) == [
        "03:11:58  neil: moon.landed eagle",
        "03:11:58  x.y  (3)",
    ]


def test_a_jump_of_the_claim_age() -> None:
    usual = [0.2, 0.3, 0.2, 0.2]
    means = [*usual, 41.0, 12.0, 0.3, 0.2]
    minutes = [{"queue": "mail", "at": NIGHT + timedelta(minutes=n), "mean": mean} for n, mean in enumerate(means)]
    calm = [{"queue": "calm", "at": NIGHT + timedelta(minutes=n), "mean": 0.1 * n} for n in range(8)]
    (jump,) = jumps([*minutes, *calm])
    assert jump.text == "mail: claim age 0.2 → 41.0 s until 03:17:58"
    assert jumps(minutes[:1]) == [], "nobody knows what was usual"


WRITTEN = re.compile(r"'((?:worker|workers|jobs?|leases|handler|schedule|dead_letters|queue|endpoint|events|route|"
                     r"workflow|schema|database|demo)\.[a-z_]+)'")  # fmt: skip


def test_every_kind_that_is_written_has_its_words() -> None:
    found = set()
    for folder in ("", "journal", "inbox", "queues", "schedules", "ownership", "outbox", "webhooks", "workflow",
                   "housekeeping", "schema/functions", "schema", "demo"):  # fmt: skip
        for path in files("holdfast").joinpath(folder).iterdir():
            if path.name.endswith((".sql", ".py")) and path.name not in ("telling.py", "story.py"):
                text = re.sub(r"probe\([^)]*\)", "", path.read_text(encoding="utf-8"))
                if "journal" in text or "note" in text:
                    found |= set(WRITTEN.findall(text.replace('"', "'")))
    composed = {"endpoint.paused", "endpoint.enabled", "endpoint.disabled"}  # in change_endpoint.sql
    assert {"worker.died", "queue.paused", "jobs.revived", "schema.migrated"} <= found
    assert found | composed | {"queue.late"} == set(telling._WORDS)


@pytest.mark.parametrize("what", sorted(telling._WORDS))
def test_every_kind_can_be_told_without_details(what: str) -> None:
    details: dict[str, Any] = {"before": 0.1, "worst": 2.0} if what == "queue.late" else {}
    assert row(what, "it", actor="ann", **details).text
