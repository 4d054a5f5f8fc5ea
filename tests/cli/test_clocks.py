"""Workers' and producers' clocks do not matter (P16): the database's decides."""

import pytest
from tests.cli.conftest import Shell
from tests.cli.test_worker import ended, working
from tests.support.waiting import wait_until

SKEWED = """
import os, time
_offset = float(os.environ["CLOCK_OFFSET"])
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _offset
time.time_ns = lambda: _time_ns() + int(_offset * 1e9)
"""


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_an_hour_off_does_the_same(shell: Shell, hours: int) -> None:
    (shell.folder / "sitecustomize.py").write_text(SKEWED)
    shell.environment = {"PYTHONPATH": str(shell.folder), "CLOCK_OFFSET": str(hours * 3600)}
    shell("enqueue", "greet", '{"name": "now"}')
    shell("enqueue", "greet", '{"name": "later"}', "--delay", "30m")
    with working(shell, "--lease", "3s", "--poll", "50ms", "--housekeeping", "200ms"):
        wait_until(lambda: ended(shell) == 1)
        (row,) = shell.sql(
            "select result, finished_at between claimed_at and now() as sane, now() - claimed_at < '1 m' as recent, "
            "attempts from holdfast.archive"
        )
        assert row == {"result": "Hello now", "sane": True, "recent": True, "attempts": 1}
        assert shell("health", "--json").json["live_workers"] == 1
        (waiting,) = shell.sql(
            "select status::text, attempts, available_at - now() > '29 m' as later from holdfast.inbox"
        )
        assert waiting == {"status": "pending", "attempts": 0, "later": True}
