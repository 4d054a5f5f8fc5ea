"""What the demo makes of a worker that does not run: its own shot, a drain, or an end that nobody ordered."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.demo import children
from holdfast.demo.children import ChildProcess
from holdfast.demo.scene import Scene
from holdfast.demo.troupe import MOST, DemoError, Troupe

SLEEPER = ["-c", "import time; time.sleep(60)"]


@pytest.fixture
def troupe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Troupe]:
    """One whose workers do nothing but live."""
    monkeypatch.setattr(
        children, "worker", lambda n, *_: ChildProcess(f"worker {n}", SLEEPER, {}, tmp_path / f"{n}.log")
    )
    troupe = Troupe("demo", {}, tmp_path, Scene())
    troupe.start()
    for member in troupe.members:
        member.seen.pid, member.seen.state = member.child.pid, "running"
    yield troupe
    for member in troupe.members:
        member.child.signal_all(signal.SIGKILL)
        assert member.child._process is not None
        member.child._process.wait(10)


async def test_a_look_while_a_shot_worker_dies_tells_nothing(troupe: Troupe) -> None:
    """The audience looks while the conductor waits for the death that it ordered."""
    child, seen = troupe.members[0].child, troupe.members[0].seen
    dying = child.kill()
    dying.send(None)  # the shot, and the first moment of the wait
    assert child._process is not None
    child._process.wait(10)
    troupe.look_at_processes()
    assert (seen.state, troupe._scene.told) == ("running", 0)
    dying.close()
    seen.state = "killed"
    child.start()
    troupe.look_at_processes()
    assert seen.state == "restarting"


@pytest.mark.parametrize("tolerant", [False, True])
async def test_an_end_that_nobody_ordered_ends_the_demo(troupe: Troupe, tolerant: bool) -> None:
    troupe.tolerant = tolerant
    troupe.members[1].child.signal_all(signal.SIGKILL)
    await troupe.members[1].child.wait(10)
    with pytest.raises(DemoError, match="worker 2 ended unexpectedly with code -9"):
        troupe.look_at_processes()


async def drained(troupe: Troupe, tmp_path: Path) -> None:
    """Let worker 2 end with code 0, as a worker does that was drained."""
    child = troupe.members[1].child
    child.signal_all(signal.SIGKILL)
    await child.wait(10)
    child._command = [sys.executable, "-c", ""]
    child.start()
    assert await child.wait(20)


async def test_a_drain_that_somebody_ordered_is_no_error(troupe: Troupe, tmp_path: Path) -> None:
    await drained(troupe, tmp_path)
    troupe.members[1].leaves = True
    for _ in range(2):
        troupe.look_at_processes()
    assert (troupe.members[1].seen.state, troupe._scene.told) == ("drained", 1)
    assert troupe.all_run and len(troupe.wanted) == 2
    again = troupe.add()
    assert again is troupe.members[1] and again.child.running and len(troupe.wanted) == 3


async def test_only_with_a_dashboard_may_others_drain(troupe: Troupe, tmp_path: Path) -> None:
    await drained(troupe, tmp_path)
    with pytest.raises(DemoError, match="worker 2 ended unexpectedly with code 0"):
        troupe.look_at_processes()
    troupe.tolerant = True
    troupe.look_at_processes()
    assert troupe.members[1].seen.state == "drained"


async def test_there_is_a_limit(troupe: Troupe) -> None:
    added = [troupe.add() for _ in range(MOST)]
    assert sum(member is not None for member in added) == MOST - 3
    assert [seen.name for seen in troupe._scene.workers] == [f"worker {n + 1}" for n in range(MOST)]
