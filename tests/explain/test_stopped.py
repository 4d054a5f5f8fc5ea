"""A worker that is stopped in the middle of a job, as explain tells it; and the command line."""

import json
import signal
from uuid import uuid4

from click.testing import CliRunner
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Inbox

from holdfast import Holdfast
from holdfast.cli import cli


def test_a_worker_is_stopped_and_goes_on(inbox: Inbox, fleet: Fleet) -> None:
    hf = Holdfast(inbox.url)
    worker = fleet.start(lease=60, concurrency=1)
    (name,) = fleet.names(worker)
    id = inbox.enqueue("hold", gate="stays shut")
    behind = inbox.enqueue("hold", gate="stays shut")
    wait_until(lambda: inbox.status(id) == "processing")
    assert hf.explain_sync(id).answer.code == "runs"
    assert name in hf.explain_sync(id).answer.sentence
    assert hf.explain_sync(behind).answer.code in ("due", "hands_busy", "runs")
    try:
        worker.send(signal.SIGSTOP)  # the supervisor: nobody renews, and nobody sends heartbeats
        inbox.rows("update holdfast.workers set last_seen_at = now() - interval '31 s'")
        found = hf.explain_sync(id)
        assert found.answer.code == "owner_silent"
        assert found.answer.until is not None and "it is retried" in found.answer.sentence
        inbox.rows("update holdfast.inbox set lease_expires_at = now() - interval '1 s' where id = %s", id)
        assert hf.explain_sync(id).answer.code == "nobody_sweeps"
    finally:
        worker.send(signal.SIGCONT)
    hf.close_sync()
    answer = CliRunner(env={"HOLDFAST_DATABASE_URL": inbox.url}).invoke(cli, ["job", "explain", str(id)])
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith(f"job {id} (hold on queue default")


def test_the_command_line(inbox: Inbox) -> None:
    runner = CliRunner(env={"HOLDFAST_DATABASE_URL": inbox.url})
    id = inbox.enqueue("greet")
    inbox.rows("insert into holdfast.queues (name, paused_at) values ('default', now())")
    told = runner.invoke(cli, ["job", "explain", str(id)])
    lines = told.output.splitlines()
    assert lines[0] == f"job {id} (greet on queue default, pending)"
    assert lines[1].startswith("queue default is paused since ")
    assert lines[2] == "  → holdfast queue resume default"
    assert lines[3] == "also: no worker is live"
    found = json.loads(runner.invoke(cli, ["job", "explain", str(id), "--json"]).output)
    assert (found["id"], [reason["code"] for reason in found["reasons"]]) == (str(id), ["paused", "no_worker"])
    unknown = runner.invoke(cli, ["job", "explain", str(uuid4())])
    assert (unknown.exit_code, "there is no job or workflow instance" in unknown.output) == (1, True)
