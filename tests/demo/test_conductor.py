"""What the conductor makes of a worker that does not run: its own shot, or an end that nobody ordered."""

import io
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.demo.children import ChildProcess
from holdfast.demo.conductor import Conductor, DemoError
from holdfast.demo.scene import Scene, Screen
from holdfast.demo.stage import Stage

SLEEPER = ["-c", "import time; time.sleep(60)"]


@pytest.fixture
def conductor(tmp_path: Path) -> Iterator[Conductor]:
    """One whose workers do nothing but live."""
    conductor = Conductor(Stage("", "demo", tmp_path, embedded=False), Scene(), Screen(io.StringIO(), live=False))
    conductor._workers = [ChildProcess(f"worker {n}", SLEEPER, {}, tmp_path / f"{n}.log") for n in (1, 2, 3)]
    for worker, seen in zip(conductor._workers, conductor._seen, strict=True):
        worker.start()
        seen.pid, seen.state = worker.pid, "running"
    yield conductor
    for worker in conductor._workers:
        worker.signal_all(signal.SIGKILL)
        assert worker._process is not None
        worker._process.wait(10)


async def test_a_look_while_a_shot_worker_dies_tells_nothing(conductor: Conductor) -> None:
    """The audience looks while the conductor waits for the death that it ordered."""
    worker, seen = conductor._workers[0], conductor._seen[0]
    dying = worker.kill()
    dying.send(None)  # the shot, and the first moment of the wait
    assert worker._process is not None
    worker._process.wait(10)
    conductor._look_at_processes()
    assert (seen.state, conductor.scene.told) == ("running", 0)
    dying.close()
    seen.state = "killed"
    worker.start()
    conductor._look_at_processes()
    assert seen.state == "restarting"


async def test_an_end_that_nobody_ordered_ends_the_demo(conductor: Conductor) -> None:
    conductor._workers[1].signal_all(signal.SIGKILL)
    await conductor._workers[1].wait(10)
    with pytest.raises(DemoError, match="worker 2 ended unexpectedly with code -9"):
        conductor._look_at_processes()
