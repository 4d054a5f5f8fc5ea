"""`holdfast worker --metrics`: real processes, killed and drained."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from tests.support.waiting import wait_until
from tests.support.workers import Fleet
from tests.worker.test_numbers import free_port

ENDED = 'holdfast_attempts_ended_total{queue="default",kind="quick",outcome="completed"} '


def page(where: str, path: str = "/metrics") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{where}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def value(where: str, start: str) -> float:
    lines = [line for line in page(where)[1].splitlines() if line.startswith(start)]
    return float(lines[0].removeprefix(start)) if lines else 0.0


def test_what_a_killed_process_had_counted_is_kept_and_reaches_the_minutes_once(fleet: Fleet) -> None:
    where = f"127.0.0.1:{free_port()}"
    fleet.inbox.prepare()
    worker = fleet.start(lease=15, options=["--metrics", where, "--heartbeat", "0.2"])
    wait_until(lambda: page(where, "/readyz")[0] == 200)
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 20))
    wait_until(lambda: value(where, ENDED) == 20)
    poison = fleet.inbox.enqueue("poison", max_attempts=1)
    fleet.inbox.wait(poison, "dead_letter")
    fleet.wait_ready(worker)  # it died of that
    os.kill(worker.child, signal.SIGKILL)
    fleet.inbox.wait(fleet.inbox.enqueue_many("quick", 5))
    wait_until(lambda: value(where, ENDED) == 25)
    assert value(where, 'holdfast_attempts_ended_total{queue="default",kind="poison",outcome="dead"} ') == 1
    assert value(where, 'holdfast_attempts_lost_total{queue="default",kind="poison",how="died"} ') == 1
    assert value(where, 'holdfast_attempts_started_total{queue="default",kind="quick"} ') == 25
    assert worker.drain() == 0
    assert fleet.inbox.one("select sum(completed) from holdfast.minutes where kind = 'quick'") == 25
    assert fleet.inbox.one("select sum(dead) from holdfast.minutes") == 1


def test_probes(fleet: Fleet) -> None:
    where = f"127.0.0.1:{free_port()}"
    worker = fleet.start(options=["--metrics", where])
    wait_until(lambda: page(where, "/readyz") == (200, "ready\n"))
    os.kill(worker.child, signal.SIGSTOP)
    wait_until(lambda: page(where, "/readyz")[0] == 503)
    assert "stopped" in page(where, "/readyz")[1]
    assert page(where, "/healthz") == (200, "alive\n")
    os.kill(worker.child, signal.SIGCONT)
    wait_until(lambda: page(where, "/readyz")[0] == 200)


def test_a_scraper_that_is_connected_when_the_worker_ends_is_no_error(fleet: Fleet) -> None:
    port = free_port()
    worker = fleet.start(options=["--metrics", f"127.0.0.1:{port}"])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as scraper:
        scraper.sendall(b"GET /met")
        wait_until(lambda: page(f"127.0.0.1:{port}")[0] == 200)  # that one came later, and was answered
        assert worker.drain() == 0
    assert "Traceback" not in worker.log
    assert "Error" not in worker.log


def test_an_address_that_cannot_be_used_is_said_at_the_start(fleet: Fleet) -> None:
    where = f"127.0.0.1:{free_port()}"
    fleet.start(options=["--metrics", where])
    for given, words in ((where, "cannot listen at"), ("nowhere", "expected HOST:PORT")):
        second = fleet.launch(options=["--metrics", given])
        assert second.wait() == 78
        assert words in second.log
        assert "Traceback" not in second.log


def test_a_worker_that_serves_no_metrics_does_not_load_what_serves_them() -> None:
    program = (
        "import sys, holdfast.processes.supervisor, holdfast.worker.embedded, holdfast.cli.worker\n"
        "loaded = {'prometheus_client', 'opentelemetry', 'starlette', 'holdfast.metrics.endpoint',"
        " 'holdfast.metrics.families'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
