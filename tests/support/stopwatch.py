"""A clock for bounds: it does not count the time that the machine took from us.

A bound guards a promise, and a promise is about our code. On a machine that stands still for two seconds, or that does
other work, a quick answer comes late although nothing is wrong. A bound that is wide enough for that guards nothing. So
a test says what is promised, and the stopwatch adds what the machine took in that time, as far as it can be measured:

- *The machine stood still.* A small process of its own sleeps for 10 ms, again and again, and notes how late it wakes.
- *Others had the cores.* The kernel counts for each thread how long it was ready to run and had no core. We add that up
  for this process and all that it has started: workers, servers. Stolen time is shared out by use.

On a quiet machine both are next to nothing. Code that sleeps, polls or waits for a lock is given nothing for it, and
code that needs much CPU is given nothing for what it uses.
"""

import atexit
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

LAYOUT = struct.Struct("dd")
"""What the process that sleeps tells: when it last woke, and for how long the machine has stood still in all."""
NAP = 0.01
LATE = 0.05
"""Seconds. A thread that sleeps gets a core sooner than that, unless the machine stands still."""
EVERY = 0.25
"""Seconds between two looks at the figures while a test waits."""
SLEEPER = f"""
import mmap, os, struct, time
there, parent = mmap.mmap(0, {LAYOUT.size}), os.getppid()
stood, last = 0.0, time.monotonic()
while os.getppid() == parent:
    time.sleep({NAP})
    now = time.monotonic()
    late, last = now - last - {NAP}, now
    if late > {LATE}:
        stood += late
    struct.pack_into("dd", there, 0, now, stood)
"""
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Taken:
    """What the machine took from a stretch of time, in seconds."""

    elapsed: float
    stood: float
    waited: float

    @property
    def seconds(self) -> float:
        return self.stood + self.waited

    @property
    def own(self) -> float:
        """What is left: the time that our code took."""
        return self.elapsed - self.seconds

    def __str__(self) -> str:
        return (
            f"{self.elapsed:.2f} s, of which the machine took {self.seconds:.2f}"
            f" (it stood still for {self.stood:.2f} s, others had the cores for {self.waited:.2f} s)"
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds up to a moment: how long the machine stood still, how long all of ours ran and waited for a core, and how
    long the cores were in use or stolen from this machine. Only differences mean anything."""

    at: float
    time: float
    stood: float
    ran: float
    waited: float
    busy: float
    stolen: float

    def until(self, later: "Figures") -> Taken:
        elapsed, stood = later.at - self.at, later.stood - self.stood
        return Taken(elapsed, stood, without_a_core(
            elapsed - stood, later.ran - self.ran, later.waited - self.waited,
            later.busy - self.busy, later.stolen - self.stolen,
        ))  # fmt: skip


def without_a_core(elapsed: float, ran: float, waited: float, busy: float, stolen: float) -> float:
    """For how long others kept us from running: the least of three figures that are each too high.

    Our threads did not all wait one after the other, so what they waited in all is too much. Nor does one wait for a
    longer share of the time than all do on average whenever they want to run. And others take no more than they use:
    if nobody else does anything, we only waited for ourselves.
    """
    if busy:
        waited += stolen * min(1.0, ran / busy)
    if not waited:
        return 0.0
    return max(0.0, min(waited, elapsed * waited / (waited + ran), busy - ran + stolen))


class Stopwatch:
    """Runs from its making."""

    def __init__(self) -> None:
        self._from = looks().now()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._from.at

    def taken(self) -> Taken:
        return self._from.until(looks().now())

    def check(self, promised: float, what: str = "this") -> None:
        """Fail if our code took longer than was promised."""
        taken = self.taken()
        assert taken.own <= promised, f"{what} took {taken}; {promised:g} s are promised"


def taken_between(since: datetime, until: datetime) -> Taken:
    """The same for times that the database has stored, while a stopwatch ran."""
    return looks().between(since.timestamp(), until.timestamp())


def look() -> None:
    """Note the figures now and then, while a test waits: what was counted for a process that ends is gone with it."""
    looks().now_and_then()


def undisturbed(story: Callable[[], None], spare: float, times: int = 4) -> None:
    """Run a story in which a part of Holdfast has to be in time by the clock, such as one that renews a lease.

    If it fails although the machine took no more than the `spare` seconds, that is a failure. Otherwise it is told
    again from the start.
    """
    for left in reversed(range(times)):
        watch = Stopwatch()
        try:
            story()
            return
        except AssertionError:
            taken = watch.taken()
            if not left or taken.seconds <= spare:
                raise
            print(f"again: {taken}")


class Looks:
    """Figures of this process and all that it has started, noted again and again."""

    def __init__(self) -> None:
        self._sleeper = Sleeper()
        self._family = Family(self._sleeper.pid)
        self._noted: deque[Figures] = deque(maxlen=5000)
        self._lock = threading.Lock()

    def now(self) -> Figures:
        with self._lock:
            at, stood = time.monotonic(), self._sleeper.stood()
            self._family.look()
            figures = Figures(at, time.time(), stood, self._family.ran / 1e9, self._family.waited / 1e9, *cores())
            self._noted.append(figures)
            return figures

    def now_and_then(self) -> None:
        if not self._noted or time.monotonic() - self._noted[-1].at > EVERY:
            self.now()

    def between(self, since: float, until: float) -> Taken:
        """From the last look before to the first one after."""
        self.now()
        before = next((noted for noted in reversed(self._noted) if noted.time <= since), self._noted[0])
        after = next(noted for noted in self._noted if noted.time >= until or noted is self._noted[-1])
        taken = before.until(after)
        return Taken(until - since, taken.stood, min(taken.waited, until - since))


@cache
def looks() -> Looks:
    return Looks()


def cores() -> tuple[float, float]:
    """Seconds of all cores: in use, and stolen from this machine."""
    try:
        text = Path("/proc/stat").read_text()
    except OSError:
        return 0.0, 0.0
    user, nice, system, _, _, irq, soft, stolen = map(int, text.partition("\n")[0].split()[1:9])
    return (user + nice + system + irq + soft) / TICK, stolen / TICK


class Family:
    """How long this process and its descendants ran, and were ready to run without a core, in nanoseconds."""

    def __init__(self, *without: int) -> None:
        self.ran = self.waited = 0
        self._without = {*without}
        self._processes = {os.getpid()}
        self._threads: dict[int, tuple[int, int]] = {}

    def look(self) -> None:
        todo = list(self._processes)  # also those whose parent has ended meanwhile
        seen, threads = set(self._without), {}
        while todo:
            process = todo.pop()
            if process in seen:
                continue
            seen.add(process)
            for thread in _threads(process):
                with suppress(OSError):
                    folder = f"/proc/{process}/task/{thread}"
                    threads[thread] = self._add(thread, Path(f"{folder}/schedstat").read_text())
                    todo += map(int, Path(f"{folder}/children").read_text().split())
        self._processes, self._threads = seen - self._without, threads

    def _add(self, thread: int, text: str) -> tuple[int, int]:
        ran, waited = map(int, text.split()[:2])
        before = self._threads.get(thread, (0, 0))
        if before[0] > ran:
            before = (0, 0)  # another one, with the number of one that has ended
        self.ran += ran - before[0]
        self.waited += waited - before[1]
        return ran, waited


def _threads(process: int) -> list[int]:
    try:
        return [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return []


class Sleeper:
    """The process that sleeps, and what it has noted."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            file.truncate(LAYOUT.size)
            self._there = mmap.mmap(file.fileno(), LAYOUT.size)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", SLEEPER], stdin=file, stdout=subprocess.DEVNULL
            )
        while self._read()[0] == 0:
            assert self._process.poll() is None, "the process that sleeps has ended"
            time.sleep(0.001)
        atexit.register(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stood(self) -> float:
        """For how many seconds the machine has stood still since this was made, up to now."""
        last, stood = self._read()
        late = time.monotonic() - last - NAP
        return stood + late if late > LATE else stood  # we may have woken before it

    def _read(self) -> tuple[float, float]:
        last, stood = LAYOUT.unpack_from(self._there)
        return last, stood

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
