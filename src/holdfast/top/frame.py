"""One frame: the state as lines that fit a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ..model.numbers import Count
from ..views.numbers import QueueNumbers
from .looking import Row, State

SMALLEST = (40, 12)
LATE = 10.0
"""Seconds of claim age from which a queue is marked as late."""

SORTS: dict[str, tuple[str, Callable[[QueueNumbers], Any]]] = {
    "n": ("name", lambda queue: queue.queue),
    "d": ("depth", lambda queue: -_count(queue, "pending")),
    "a": ("claim age", lambda queue: -(queue.claim_age or 0.0)),
    "t": ("throughput", lambda queue: -(queue.lately.throughput if queue.lately else 0.0)),
}
"""By the key that chooses it: how queues are sorted."""
KEYS = "q quit   sort queues by: n name  d depth  a claim age  t throughput"


@dataclass(frozen=True, slots=True)
class Paint:
    """How parts are marked; without colours, not at all."""

    bold: str = ""
    dim: str = ""
    bad: str = ""
    late: str = ""
    end: str = ""

    def __call__(self, kind: str, text: str) -> str:
        return f"{getattr(self, kind)}{text}{self.end}" if kind else text


PLAIN = Paint()
COLOURS = Paint("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    width: int
    """0: what is left of the line."""
    value: Callable[[Any], str]
    right: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    empty: str
    mark: Callable[[Any], str] = lambda row: ""


def frame(
    state: State, where: str, width: int, height: int, sort: str = "d", paint: Paint = PLAIN, problem: str | None = None
) -> list[str]:
    """Return `height` lines at most, none longer than `width`."""
    width, height = max(width, SMALLEST[0]), max(height, SMALLEST[1])
    head = [*_head(state, where, width, paint), ""]
    if problem is not None:
        head[-1] = paint("bad", _fit(f"✕ {problem}", width))
    sections = _sections(state, sort)
    room = height - len(head) - 1 - len(sections)  # a line for the keys, and the titles
    lines = list(head)
    for section, rows in zip(sections, _divide(room, [max(1, len(each.rows)) for each in sections]), strict=True):
        lines += _section(section, rows, width, paint)
    return [*lines, paint("dim", _fit(KEYS, width))]


def _head(state: State, where: str, width: int, paint: Paint) -> list[str]:
    found = state.numbers
    late = "bad" if found.claim_age >= 6 * LATE else "late" if found.claim_age >= LATE else ""
    three = [
        ("", f"Depth {_number(found.depth)}"),
        (late, f"Claim age {seconds(found.claim_age)}"),
        ("late" if found.retry_rate >= 0.1 else "", f"Retry rate {found.retry_rate:.1%}"),
    ]
    rest = [
        f"{found.throughput:.1f} jobs/s",
        f"running {_number(found.processing)}",
        f"dead {_number(found.dead_letters)}",
        f"run p95 {seconds(found.run_p95)}",
        f"pick-up p95 {seconds(found.pickup_p95)}",
    ]
    paused = [queue.queue for queue in found.queues if queue.paused]
    lacking = sum(count.value for queue in found.queues for count in queue.unclaimable.values())
    notes = [
        *([f"❚❚ paused: {', '.join(paused)}"] if paused else []),
        *(
            [f"▲ {lacking:,.0f} {'job' if lacking == 1 else 'jobs'} that no worker can run: holdfast stats"]
            if lacking
            else []
        ),
        *([] if any(row["live"] for row in state.workers) else ["▲ no live worker"]),
    ]
    words = "   ".join(text for _, text in three)
    told = (
        "   ".join(paint(f"{kind}" or "bold", text) for kind, text in three) if len(words) <= width else words[:width]
    )
    return [
        paint("dim", _fit(f"holdfast top   {state.at:%H:%M:%SZ}   {where}", width)),
        told,
        _fit("   ".join(rest), width),
        paint("late", _fit("   ".join(notes), width)) if notes else "",
    ]


def _sections(state: State, sort: str) -> list[Section]:
    queues = sorted(state.numbers.queues, key=lambda queue: (SORTS[sort][1](queue), queue.queue))
    return [
        Section(f"QUEUES by {SORTS[sort][0]}", QUEUES, queues, "no queues yet", _mark_queue),
        Section(
            "WORKERS", WORKERS, state.workers, "no workers; start one: holdfast worker module:attribute", _mark_worker
        ),
        Section("RUNNING, longest first", _running(state.at), state.running, "nothing runs"),
        Section("ERRORS, latest dead letters", ERRORS, state.errors, "no dead letters", lambda row: "bad"),
    ]


def _section(section: Section, rows: int, width: int, paint: Paint) -> list[str]:
    """The title with the names of the columns, and so many rows."""
    hidden = len(section.rows) - rows
    title = f"{section.title}{f' (+{hidden:,})' if hidden > 0 else ''}"
    if not section.rows:
        return [paint("bold", _fit(title, width)), paint("dim", _fit(section.empty, width))]
    columns = _shown(section.columns, width)
    # The title stands in for the name of the first column.
    lines = [paint("bold", _line(columns, [title, *(column.name for column in columns[1:])], width))]
    for row in section.rows[:rows]:
        lines.append(paint(section.mark(row), _line(columns, [column.value(row) for column in columns], width)))
    return lines


def _shown(columns: Sequence[Column], width: int) -> Sequence[Column]:
    """The columns that fit: the last fixed ones go first."""
    shown = list(columns)
    while len(shown) > 2 and sum((column.width or 16) + 2 for column in shown) > width + 2:
        victim = next(n for n in range(len(shown) - 1, -1, -1) if shown[n].width)
        del shown[victim]
    return shown


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    fixed = sum(column.width for column in columns) + 2 * (len(columns) - 1)
    return [column.width or max(8, width - fixed) for column in columns]


def _line(columns: Sequence[Column], values: Sequence[str], width: int) -> str:
    cells = []
    for column, value, wide in zip(columns, values, _widths(columns, width), strict=True):
        text = _fit(value, wide)
        cells.append(text.rjust(wide) if column.right else text.ljust(wide))
    return _fit("  ".join(cells).rstrip(), width)


def _fit(text: str, width: int) -> str:
    """One line without control characters: stored text must not control a terminal."""
    line = "".join(character if character.isprintable() else "·" for character in text)
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _divide(room: int, needs: Sequence[int]) -> list[int]:
    """Divide the lines: what one section does not need, the others get."""
    given = [0] * len(needs)
    while room > 0 and any(have < need for have, need in zip(given, needs, strict=True)):
        for n, need in enumerate(needs):
            if room > 0 and given[n] < need:
                given[n] += 1
                room -= 1
    return given


# Values


def seconds(value: float | None) -> str:
    """A time as people read it: 3 ms, 1.2 s, 4 min, 2 h, 3 d."""
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    for unit, size in (("min", 60), ("h", 3600)):
        if value < 100 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value / 86400:.0f} d"


def _number(count: Count) -> str:
    return f"{'' if count.exact else '≈ '}{count.value:,.0f}"


def _count(queue: QueueNumbers, state: str) -> float:
    return queue.jobs[state].value if state in queue.jobs else 0


def _state(state: str) -> Callable[[QueueNumbers], str]:
    return lambda queue: _number(queue.jobs[state]) if state in queue.jobs else "0"


def _per_second(queue: QueueNumbers) -> str:
    return f"{queue.lately.throughput:.1f}" if queue.lately else "–"


def _p95(queue: QueueNumbers) -> str:
    return seconds(queue.lately.attempts.run.quantile(0.95)) if queue.lately else "–"


def _mark_queue(queue: QueueNumbers) -> str:
    if queue.paused or (queue.claim_age or 0) >= LATE:
        return "late"
    return ""


def _sign(queue: QueueNumbers) -> str:
    return "❚❚ " if queue.paused else "▲ " if (queue.claim_age or 0) >= LATE else ""


QUEUES = [
    Column("queue", 0, lambda queue: f"{_sign(queue)}{queue.queue}"),
    Column("pending", 10, _state("pending"), right=True),
    Column("running", 7, _state("processing"), right=True),
    Column("age", 7, lambda queue: seconds(queue.claim_age), right=True),
    Column("jobs/s", 8, _per_second, right=True),
    Column("dead", 7, _state("dead_letters"), right=True),
    Column("p95", 7, _p95, right=True),
    Column("retrying", 8, _state("retrying"), right=True),
    Column("later", 8, _state("scheduled"), right=True),
]


def _metadata(row: Row) -> dict[str, Any]:
    """A heartbeat that was written by hand may hold anything."""
    value = row["metadata"]
    told = msgspec.json.decode(value) if isinstance(value, str) else value
    return told if isinstance(told, dict) else {}


def _counter(name: str) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        counters = _metadata(row).get("counters")
        found = counters.get(name) if isinstance(counters, dict) else None
        return f"{found:,}" if isinstance(found, int) else "–"

    return value


def _queues(row: Row) -> str:
    queues = _metadata(row).get("queues")
    return ",".join(map(str, queues)) if isinstance(queues, list) else "–"


def _status(row: Row) -> str:
    return str(row["status"]) if row["live"] or row["status"] != "alive" else "silent"


def _mark_worker(row: Row) -> str:
    return "" if row["live"] else "late"


WORKERS = [
    Column("worker", 0, lambda row: str(row["id"])),
    Column("status", 8, _status),
    Column("seen", 7, lambda row: seconds(row["silent"]), right=True),
    Column("running", 7, _counter("running"), right=True),
    Column("completed", 11, _counter("completed"), right=True),
    Column("lost", 5, _counter("lease_lost"), right=True),
    Column("up", 7, lambda row: seconds(row["up"]), right=True),
    Column("queues", 16, _queues),
]


def _running(now: datetime) -> list[Column]:
    return [
        Column("kind", 0, lambda row: str(row["kind"])),
        Column("for", 7, lambda row: seconds(max(0.0, (now - row["claimed_at"]).total_seconds())), right=True),
        Column("attempt", 7, lambda row: f"{row['attempts']}/{row['max_attempts']}", right=True),
        Column("worker", 24, lambda row: str(row["claimed_by"])),
        Column("queue", 10, lambda row: str(row["queue"])),
        Column("job", 36, lambda row: str(row["id"])),
    ]


def _when(row: Row) -> str:
    return f"{row['dead_at']:%m-%d %H:%M}" if row["dead_at"] else "–"


ERRORS = [
    Column("error", 0, lambda row: (row["last_error"] or "").split("\n")[0]),
    Column("kind", 16, lambda row: str(row["kind"])),
    Column("at", 11, _when),
]
