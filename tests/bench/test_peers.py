"""The peers' folders are complete, and what measures them counts right. No peer is installed or run here."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import asyncpg
import pytest
from tests.support.pooler import direct

from bench.ground import Ground
from bench.paces import Burst
from bench.peers import NAMES
from bench.peers.draining import Drained, drain
from bench.peers.driver import Driver, DriverFailed
from bench.peers.environment import command
from bench.peers.peer import PEERS, LeftOut, Peer
from bench.peers.race import heard
from bench.turn.pickup import by_round

pytestmark = pytest.mark.direct  # benchmarks measure a server, not the way to it

JOBS = 40


class Toy(Peer):
    """A queue of our own, whose driver runs in our own environment."""

    @property
    def folder(self) -> Path:
        return Path(__file__).parent / "toy"


TOY = Toy("toy", JOBS, JOBS)
DRIVER = Driver(TOY, [sys.executable, str(TOY.driver)])


def test_all_that_were_promised_are_there() -> None:
    assert set(NAMES) == {"procrastinate", "pgqueuer", "awa", "oban", "absurd", "dbos", "graphile", "pgboss"}


@pytest.mark.parametrize("name", NAMES)
def test_versions_are_pinned_and_nothing_says_from_where(name: str) -> None:
    peer = PEERS[name]
    text = peer.pins.read_text()
    if peer.node:
        pinned = json.loads(text)
        versions = [*pinned["dependencies"].values(), pinned["config"]["node"]]
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)
    else:
        assert all(re.fullmatch(r"[a-z-]+(\[[a-z,]+\])?==[\d.]+", line) for line in text.splitlines())
    assert "://" not in text
    assert not list(peer.folder.glob("*lock*"))


@pytest.mark.parametrize("name", NAMES)
def test_settings_stand_in_the_driver_and_the_questions_beside_it(name: str) -> None:
    peer = PEERS[name]
    assert re.search(r"^SETTINGS = |^  settings: ", peer.driver.read_text(), re.MULTILINE)
    for question in ("unfinished", "completed"):
        assert peer.sql(question).startswith("-- ")


async def test_a_peer_without_an_interpreter_is_left_out_with_a_sentence() -> None:
    with pytest.raises(LeftOut, match=r"needs Python 3\.19 or newer, and none was found"):
        await command(Toy("toy", JOBS, JOBS, python=(3, 19)))


async def test_a_pyenv_that_cannot_be_looked_into_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no folder can have fails for root as well, whom permissions do not stop."""
    monkeypatch.setenv("PYENV_ROOT", "/" + "x" * 300)
    with pytest.raises(LeftOut, match=r"needs Python 3\.19 or newer, and none was found"):
        await command(Toy("toy", JOBS, JOBS, python=(3, 19)))


async def test_a_drain_is_timed_and_counted(database_url: str) -> None:
    drained = await _drain(database_url)
    assert drained.jobs == JOBS
    assert len(drained.quarters) == 4
    assert sum(JOBS / 4 / rate for rate in drained.quarters) == pytest.approx(drained.seconds)
    assert drained.memory > 1
    assert drained.ready["settings"] == "none to speak of"


async def test_a_job_called_twice_is_noticed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAULT", "twice")
    with pytest.raises(DriverFailed, match=f"the handler was called {JOBS + 1} times for {JOBS} jobs"):
        await _drain(database_url)


async def test_a_driver_that_dies_leaves_its_last_words(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAULT", "dies")
    with pytest.raises(DriverFailed, match="toy worker: expected ready, and it ended with code 1") as failed:
        await _drain(database_url)
    assert failed.value.last_words == "I cannot work"


async def test_pick_up_is_the_time_from_the_call_to_the_handler(database_url: str) -> None:
    await DRIVER.call("install", database_url)
    async with DRIVER.worker("worker-pickup", database_url, 0) as worker:
        await DRIVER.call("pickup", database_url, 3, 0.01, 0.02)
        waits = [(await worker.until("waited"))["ms"] for _ in range(3)]
    assert all(0 < wait < 60_000 for wait in waits)


@pytest.mark.parametrize("how", ["many", "one"])
async def test_a_burst_is_timed_round_by_round(database_url: str, how: str) -> None:
    await DRIVER.call("install", database_url)
    burst = Burst(3, 1, how)
    async with DRIVER.worker("worker-hand", database_url, 0) as worker:
        await DRIVER.call("burst", database_url, burst.jobs, 2, 0.2, 0.3, how)
        waits = await heard([worker], 6)
    assert sorted(number for number, _ in waits) == list(range(6))
    each, last = by_round("pickup", burst, waits)
    assert len(each.values) == 6 and len(last.values) == 2
    # One hand holds each job for 50 ms, so the third of a round waits for two others.
    assert min(last.values) >= 100


async def test_a_fleet_whose_worker_dies_is_not_waited_for(database_url: str) -> None:
    await DRIVER.call("install", database_url)
    async with (
        DRIVER.worker("worker-hand", database_url, 0) as one,
        DRIVER.worker("worker-hand", database_url, 0) as two,
    ):
        two.process.kill()
        with pytest.raises(DriverFailed, match="expected waited, and it ended"):
            await heard([one, two], 1)


async def test_a_worker_ends_with_the_process_that_started_it(database_url: str) -> None:
    await DRIVER.call("install", database_url)
    script = (
        "import asyncio, sys\n"
        "from tests.bench.test_peers import DRIVER\n"
        "async def main():\n"
        "    async with DRIVER.worker('worker', sys.argv[1], 4) as worker:\n"
        "        print(worker.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[2]
    bench = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, database_url, cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert bench.stdout is not None
    worker = int(await bench.stdout.readline())
    bench.send_signal(signal.SIGKILL)
    await bench.wait()
    async with asyncio.timeout(30):
        while _runs(worker):
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether it is there, and not only its remains that nobody has collected yet."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def _drain(url: str) -> Drained:
    await DRIVER.call("install", url)
    await DRIVER.call("bulk", url, JOBS)
    connection = await asyncpg.connect(direct(url))
    assert await connection.fetchval("select count(*) from toy") == JOBS
    await connection.close()
    return await drain(Ground(url, None), DRIVER, url, JOBS)
