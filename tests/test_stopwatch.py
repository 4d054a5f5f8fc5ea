"""The clock of the bounds: what the machine takes is not ours, and what our code takes is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.stopwatch import Stopwatch, look, taken_between, undisturbed, without_a_core
from tests.support.workers import ROOT

PROMISED = 0.6
CODE = {
    "quick": "time.sleep(0.2); burn(0.2)",
    "sleeps": "time.sleep(1)",
    "burns": "burn(1)",
    "asks often": "for _ in range(100): time.sleep(0.01)",
    "quick child": "child(0.3)",
    "child burns": "child(1)",
}
"""What the measured code does."""
SLOW = ("sleeps", "burns", "asks often", "child burns")
"""These take longer than is promised, on any machine."""
MEASURED = """
import subprocess, sys, time
sys.path.insert(0, ".")
from tests.support.stopwatch import Stopwatch, look

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass

def child(seconds):
    code = f"import time\\nwhile time.process_time() < {{seconds}}: pass"
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    while process.poll() is None:
        look()
        time.sleep(0.01)

Stopwatch()  # the first one starts a process
print("ready", flush=True)
sys.stdin.readline()
watch = Stopwatch()
{code}
taken = watch.taken()
print(taken.elapsed, taken.stood, taken.waited, flush=True)
watch.check({promised}, "the code")
"""


@dataclass
class Measured:
    """A program of a group of its own, with its own clock, that waits for the signal to run what is measured."""

    process: subprocess.Popen[str]
    elapsed = stood = waited = 0.0
    said = ""

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def passes(self) -> bool:
        out, self.said = self.process.communicate(timeout=60)
        self.elapsed, self.stood, self.waited = map(float, out.split())
        print(out, self.said)
        return self.process.returncode == 0


@contextmanager
def measured(code: str) -> Iterator[Measured]:
    program = MEASURED.format(code=CODE[code], promised=PROMISED)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield Measured(process)
        finally:
            process.kill()


@pytest.mark.parametrize("code", ["quick", "burns"])
def test_while_the_machine_stands_still(code: str) -> None:
    with measured(code) as it:
        it.go()
        time.sleep(0.1)
        os.killpg(it.process.pid, signal.SIGSTOP)
        time.sleep(2)
        os.killpg(it.process.pid, signal.SIGCONT)
        assert it.passes() == (code not in SLOW)
    assert it.elapsed > 2.0
    assert it.stood > 1.8


def test_a_lock_that_holds_up_the_whole_process_is_our_own_fault() -> None:
    """What measures the machine is another process: it does not wait for the lock of this interpreter."""
    watch = Stopwatch()
    began = time.thread_time()
    sum(range(20_000_000))  # holds the lock from its beginning to its end
    taken = watch.taken()
    assert taken.own > 0.8 * (time.thread_time() - began), taken


def test_times_of_the_database() -> None:
    began = datetime.now(UTC)
    watch = Stopwatch()
    burn_until = time.thread_time() + 0.3
    while time.thread_time() < burn_until:
        look()
    taken = taken_between(began, began + timedelta(seconds=0.2))
    assert taken.elapsed == pytest.approx(0.2)
    assert taken.own <= watch.elapsed
    assert taken_between(began, datetime.now(UTC)).own == pytest.approx(watch.taken().own, abs=0.2)


def test_a_story_is_told_again_only_if_the_machine_took_much() -> None:
    told = []

    def fails() -> None:
        told.append(1)
        raise AssertionError("as always")

    with pytest.raises(AssertionError, match="as always"):
        undisturbed(fails, spare=60)
    assert len(told) == 1
    with pytest.raises(AssertionError, match="as always"):
        undisturbed(fails, spare=-1)
    assert len(told) == 5


def test_others_take_no_more_than_they_use() -> None:
    """Eight threads of ours on one core, and nobody else: they wait for each other."""
    assert without_a_core(elapsed=8, ran=8, waited=56, busy=8, stolen=0) == 0
    assert without_a_core(elapsed=8, ran=4, waited=4, busy=8, stolen=0) == 4
    assert without_a_core(elapsed=8, ran=4, waited=0, busy=4, stolen=1) == 1
    assert without_a_core(elapsed=8, ran=0.1, waited=0.3, busy=8, stolen=0) == pytest.approx(0.3), "it slept"
    assert without_a_core(elapsed=8, ran=0, waited=0, busy=0, stolen=0) == 0, "nothing can be measured here"


@pytest.fixture(scope="module")
def busy() -> Iterator[None]:
    """Others use all cores. The kernel shares them out by session, so each has its own."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.parametrize("code", CODE)
def test_while_others_use_all_cores(busy: None, code: str) -> None:
    with measured(code) as it:
        it.go()
        assert it.passes() == (code not in SLOW)
    if "burns" in code:
        assert it.elapsed > 1.2, "it had to wait for a core"
    if code in SLOW:
        assert "0.6 s are promised" in it.said
