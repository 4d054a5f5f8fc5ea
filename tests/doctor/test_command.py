"""`holdfast doctor`: what it prints, and how it ends."""

import json

import pytest
from click.testing import CliRunner
from tests.doctor.conftest import Ward

from holdfast.cli import cli

pytestmark = pytest.mark.direct


@pytest.fixture
def runner(ward: Ward) -> CliRunner:
    return CliRunner(env={"HOLDFAST_DATABASE_URL": ward.url})


def test_lines_remedies_and_exit_codes(ward: Ward, runner: CliRunner) -> None:
    well = runner.invoke(cli, ["doctor", "paused", "leases"])
    assert (well.exit_code, well.output.splitlines()[-1]) == (0, "2 ok")
    assert well.output.startswith("ok      leases  no lease has expired;")
    ward.rows("insert into holdfast.queues (name, paused_at) values ('mail', now() - interval '11 m')")
    ward.job(queue="mail")
    ill = runner.invoke(cli, ["doctor", "paused", "unclaimable"])
    lines = ill.output.splitlines()
    assert (ill.exit_code, lines[-1]) == (1, "2 warn")
    assert lines[0].startswith("warn    paused       queue mail is paused for 11 m")
    assert lines[1:3] == ["        → holdfast queue resume mail", "        → holdfast runbook due-lag"]
    ward.rows("update holdfast.inbox set available_at = now() - interval '11 m'")
    assert runner.invoke(cli, ["doctor"]).exit_code == 2
    (found,) = json.loads(runner.invoke(cli, ["doctor", "paused", "--json"]).output)
    assert (found["name"], found["level"], found["unit"], found["page"]) == ("paused", "warn", "s", "due-lag")


def test_it_cannot_look(runner: CliRunner) -> None:
    assert runner.invoke(cli, ["doctor", "spleen"]).exit_code == 2
    nowhere = runner.invoke(cli, ["doctor"], env={"HOLDFAST_DATABASE_URL": "postgresql://127.0.0.1:1/none"})
    assert (nowhere.exit_code, "Traceback" in nowhere.output) == (2, False)
