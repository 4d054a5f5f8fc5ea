"""What handlers print."""

from pathlib import Path

from tests.support.waiting import wait_until
from tests.support.workers import Fleet

APP = """
from holdfast import Holdfast
hf = Holdfast()
@hf.task
async def greet(name: str) -> None:
    print(f"Hello {name}")
"""


def test_it_is_seen_at_once_also_where_no_terminal_is(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    worker = fleet.start(app="shop:hf", lease=60, environment={"PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": ""})
    fleet.inbox.wait(fleet.inbox.enqueue("greet", name="Ada"))
    wait_until(lambda: "Hello Ada" in worker.log)
    assert worker.process.poll() is None
