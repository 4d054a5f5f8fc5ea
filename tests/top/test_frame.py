"""One frame: what it shows, and that it fits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.model.numbers import Attempts, Count
from holdfast.top.frame import COLOURS, SORTS, _divide, frame, seconds
from holdfast.top.looking import State
from holdfast.views.numbers import Numbers, Point, QueueNumbers

NOW = datetime(2026, 3, 12, 3, 12, tzinfo=UTC)


def queue(name: str, pending: int = 0, age: float | None = None, done: int = 0, **more: Any) -> QueueNumbers:
    lately = Point(NOW, 300.0, name, "", Attempts(completed=done)) if done else None
    return QueueNumbers(name, {"pending": Count(pending, more.pop("exact", True))}, age, lately=lately, **more)


def state(*queues: QueueNumbers, workers: int = 1, running: int = 1, errors: int = 1, **more: Any) -> State:
    numbers = Numbers(
        depth=Count(sum(each.jobs["pending"].value for each in queues)), claim_age=more.get("age", 0.2),
        retry_rate=0.031, age=1.0, processing=Count(running), dead_letters=Count(errors), throughput=12.0, run_p50=0.01,
        run_p95=0.05, pickup_p50=0.002, pickup_p95=0.004, attempts=Attempts(), seconds=300.0, outbox_lag={}, workers={},
        queues=list(queues), gauges=[],
    )  # fmt: skip
    each = {"status": "alive", "live": True, "silent": 2.0, "up": 60.0}
    counters = '{"queues": ["mail"], "counters": {"running": 3, "completed": 1234}}'
    return State(
        NOW,
        numbers,
        [{"id": f"web-{n}-17-ab", "metadata": counters, **each} for n in range(workers)],
        [
            {"id": n, "kind": f"send_{n}", "queue": "mail", "attempts": 1, "max_attempts": 5, "claimed_by": "web-0",
             "claimed_at": NOW - timedelta(seconds=90)} for n in range(running)
        ],
        [{"kind": "charge", "last_error": "CardError: \x1b[31mno\nmore", "dead_at": NOW} for _ in range(errors)],
    )  # fmt: skip


def test_what_it_shows() -> None:
    text = "\n".join(frame(state(queue("mail", 12345, 41.0, 600), queue("web", 7)), "db", 100, 30))
    for words in (
        "Depth 12,352", "Claim age 200 ms", "Retry rate 3.1%", "12.0 jobs/s", "run p95 50 ms", "▲ mail", "12,345",
        "41.0 s", "2.0", "web-0-17-ab", "1,234", "send_0", "90.0 s", "1/5", "CardError: ·[31mno", "03-12 03:12",
        "q quit",
    ):  # fmt: skip
        assert words in text, words
    assert "\x1b" not in text
    assert "more" not in text, "an error is its first line"


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [12, 24, 60])
def test_it_fits(width: int, height: int) -> None:
    many = state(*(queue(f"queue-{n}" * 5, n) for n in range(90)), workers=90, running=90, errors=90)
    lines = frame(many, "postgresql://somewhere/" + "x" * 300, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    for title in ("QUEUES", "WORKERS", "RUNNING", "ERRORS"):
        assert sum(line.startswith(title) for line in lines) == 1


def test_all_of_80_by_24_is_used() -> None:
    many = state(*(queue(f"q{n}", n) for n in range(90)), workers=2, running=90, errors=1)
    lines = frame(many, "db", 80, 24)
    assert len(lines) == 24
    assert sum(line.startswith("web-") for line in lines) == 2
    assert sum(line.startswith("q") for line in lines[:-1]) >= 5, "what others do not need, it gets"


def test_the_sorts() -> None:
    queues = (queue("b", 1, 9.0, 1), queue("a", 2, 3.0, 900), queue("c", 3, 5.0, 5))
    firsts = {key: frame(state(*queues), "db", 80, 24, key)[6].split()[0] for key in SORTS}
    assert firsts == {"n": "a", "d": "c", "a": "b", "t": "a"}


def test_marks() -> None:
    paused = state(queue("mail", 5, 41.0, paused=True, unclaimable={"old": Count(3)}), workers=0)
    text = "\n".join(frame(paused, "db", 120, 24, paint=COLOURS, problem="OSError: gone"))
    for words in ("❚❚ paused: mail", "▲ 3 jobs that no worker can run", "▲ no live worker", "✕ OSError: gone"):
        assert words in text, words
    assert "≈ 5" in "\n".join(frame(state(queue("mail", 5, exact=False)), "db", 80, 24))


def test_values() -> None:
    told = {0.0021: "2 ms", 1.25: "1.2 s", 99.0: "99.0 s", 240.0: "4 min", 7200.0: "2 h", 864000.0: "10 d", None: "–"}
    assert {value: seconds(value) for value in told} == told
    assert _divide(10, [1, 20, 2, 20]) == [1, 4, 2, 3]
    assert _divide(3, [5, 5, 5, 5]) == [1, 1, 1, 0]
