"""`holdfast schedule …`."""

import re

from tests.cli.conftest import Shell


def test_the_life_of_a_schedule(shell: Shell) -> None:
    added = shell("schedule", "add", "nightly", "report", '{"region": "eu"}', "--cron", "30 2 * * *", "--tz",
                  "Europe/Berlin", "-q", "reports", "--missed", "skip")  # fmt: skip
    assert re.match(
        r"schedule nightly: cron 30 2 \* \* \* Europe/Berlin; next slot .* Europe/Berlin  .* UTC", added.out
    )
    (listed,) = shell("schedule", "list", "--json").json
    assert (listed["name"], listed["kind"], listed["state"], listed["missed"]) == (
        "nightly",
        "report",
        "active",
        "skip",
    )
    assert len(listed["next_slots"]) == 5 and listed["args"] == {"region": "eu"} and listed["grace"] == 30

    shown = shell("schedule", "show", "nightly")
    assert len(re.findall(r"\d\d:\d\d:00 Europe/Berlin  .* UTC", shown.out)) == 5
    assert 'report {"region":"eu"}' in shown.out

    assert "is paused" in shell("schedule", "pause", "nightly", "--yes").out
    assert "paused since" in shell("schedule", "list").out
    job = shell("schedule", "trigger", "nightly", "--json").json["id"]
    (row,) = shell.sql("select kind, queue from holdfast.inbox where id = %s", job)
    assert row == {"kind": "report", "queue": "reports"}
    assert "is resumed" in shell("schedule", "resume", "nightly").out
    assert "counts from now on" in shell("schedule", "reset", "nightly", "--yes").out
    assert "is removed" in shell("schedule", "remove", "nightly", "--yes").out
    assert shell("schedule", "list").out.startswith("no schedules")


def test_mistakes(shell: Shell) -> None:
    bad = shell("schedule", "add", "nightly", "report", "--cron", "noon")
    assert (bad.code, "cron: expected five fields" in bad.err) == (1, True)
    missing = shell("schedule", "show", "nightly")
    assert (missing.code, "There is no schedule 'nightly'" in missing.err) == (1, True)
