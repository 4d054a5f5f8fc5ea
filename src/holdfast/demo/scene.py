"""What the demo shows: plain values, and how they are drawn."""

from __future__ import annotations

import os
import shutil
from collections import deque
from dataclasses import dataclass, field
from typing import TextIO

BARS = "▁▂▃▄▅▆▇█"
EVENTS = 9


@dataclass(slots=True)
class WorkerSeen:
    name: str
    pid: int = 0
    state: str = "starting"
    held: int = 0
    kills: int = 0


@dataclass(frozen=True, slots=True)
class Pinned:
    """A transaction that was left open on purpose."""

    pid: int
    """Of its session."""
    seconds: float
    xids: int
    """Transactions since then."""
    dead_rows: int
    """Of the inbox, that vacuum has not removed."""


@dataclass(slots=True)
class Scene:
    server: str = ""
    dashboard: str = ""
    """Its address, or why there is none."""
    pin: Pinned | None = None
    seconds: float = 0.0
    total: float = 0.0
    act: str = "starting"
    due: int = 0
    later: int = 0
    processing: int = 0
    claim_age: float = 0.0
    completed: int = 0
    dead: int = 0
    slots: int = 0
    """Of the schedule, that have fired and run."""
    orders: int = 0
    rolled_back: int = 0
    repeated: int = 0
    kills: int = 0
    recovered: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=30))
    workers: list[WorkerSeen] = field(default_factory=list)
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS))
    told: int = 0
    """The number of events so far, including those that no longer show."""

    def tell(self, words: str) -> None:
        self.events.append(f"{self.seconds:6.1f} s  {words}")
        self.told += 1

    @property
    def rate(self) -> float:
        return self.rates[-1] if self.rates else 0.0


def sparkline(values: deque[float], width: int) -> str:
    shown = list(values)[-width:]
    top = max(shown, default=0.0) or 1.0
    return "".join(BARS[min(int(value / top * (len(BARS) - 1) + 0.5), len(BARS) - 1)] for value in shown)


def draw(scene: Scene, width: int) -> list[str]:
    """Return the whole view as lines, none wider than `width`."""
    spark = sparkline(scene.rates, 30 if width >= 100 else 20)
    head = f"Holdfast demo  {scene.server}"
    clock = f"{min(scene.seconds, scene.total):.0f} of {scene.total:.0f} s, {scene.act}"
    lines = [
        f"{head}{clock:>{max(width - len(head) - 1, len(clock) + 2)}}",
        "",
        f"  due now     {scene.due:>8,}     {scene.later:,} due later        claim age {scene.claim_age:.2f} s",
        f"  processing  {scene.processing:>8,}     {scene.slots:,} slots of a schedule fired",
        f"  completed   {scene.completed:>8,}     {spark} {scene.rate:,.0f}/s",
        f"  orders      {scene.orders:>8,}     {scene.rolled_back:,} rolled back,"
        f" {scene.repeated:,} sent twice with the same key",
        f"  kills       {scene.kills:>8,}     {scene.recovered:,} jobs recovered        dead letters {scene.dead:,}",
        "",
    ]
    if scene.dashboard:
        lines.insert(2, f"  dashboard   {scene.dashboard}")
    for seen in scene.workers:
        pid = f"pid {seen.pid}" if seen.pid else ""
        held = f"{seen.held:>4} jobs held" if seen.state == "running" else ""
        lines.append(f"  {seen.name}   {pid:<12} {seen.state:<20} {held:<14} killed {seen.kills}×")
    lines += ["", *(f"  {event}" for event in scene.events)]
    lines += [""] * (EVENTS - len(scene.events))
    return [line if len(line) < width else f"{line[: width - 2]}…" for line in lines]


def one_line(scene: Scene) -> str:
    states = " ".join({"running": "up"}.get(w.state, w.state.split()[0].rstrip(",")) for w in scene.workers)
    return (
        f"{scene.seconds:5.1f} s  depth {scene.due + scene.later:>5}  processing {scene.processing:>3}"
        f"  completed {scene.completed:>6} ({scene.rate:>5.0f}/s)  claim age {scene.claim_age:.2f} s"
        f"  kills {scene.kills}  recovered {scene.recovered}  dead {scene.dead}  workers {states}"
    )


class Screen:
    """Redraws in place on a terminal; otherwise prints a line per second, and every event."""

    def __init__(self, stream: TextIO, live: bool) -> None:
        self._stream = stream
        self.live = live
        self._height = 0
        self._plain = bool(os.environ.get("NO_COLOR"))
        self._told = 0

    def show(self, scene: Scene) -> None:
        if not self.live:
            self._events(scene)
            self._stream.write(one_line(scene) + "\n")
            self._stream.flush()
            return
        columns, rows = shutil.get_terminal_size()
        lines = draw(scene, columns)[: rows - 1]
        if not self._plain:
            lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
        up = f"\x1b[{self._height}A" if self._height else "\x1b[?25l"
        self._stream.write(f"\r{up}" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._height = len(lines)

    def announce(self, scene: Scene, act: str) -> None:
        """Show what is being done before there are numbers to show."""
        scene.act = act
        if self.live:
            self.show(scene)
        else:
            self._stream.write(f"Holdfast demo: {act}\n")
            self._stream.flush()

    def _events(self, scene: Scene) -> None:
        fresh = min(scene.told - self._told, len(scene.events))
        for event in list(scene.events)[len(scene.events) - fresh :]:
            self._stream.write(event.removeprefix(" ") + "\n")
        self._told = scene.told

    def close(self) -> None:
        """Show the cursor again; what was drawn stays."""
        if self.live and self._height:
            self._stream.write("\x1b[?25h")
            self._stream.flush()
            self._height = 0


class Dark(Screen):
    """Shows nothing."""

    def show(self, scene: Scene) -> None:
        return

    def announce(self, scene: Scene, act: str) -> None:
        return


def screen_for(stream: TextIO, as_json: bool) -> Screen:
    """Return the screen of a stream. With --json, only a terminal gets one."""
    live = stream.isatty() and os.environ.get("TERM") != "dumb"
    return Dark(stream, False) if as_json and not live else Screen(stream, live)
