"""`holdfast workers`: who is there, who owns what, and draining them."""

import json

import pytest
from tests.cli.conftest import Shell

from holdfast.model.keys import bucket
from holdfast.model.ring import Ring


@pytest.fixture
def fleet(shell: Shell) -> Shell:
    """Two live workers on one host, one on another, one that drains and one that is gone."""
    for name, status, host in (
        ("a-1", "alive", "north"), ("a-2", "alive", "north"), ("b-1", "alive", "south"), ("b-2", "draining", "south"),
        ("b-3", "dead", "south"),
    ):  # fmt: skip
        shell.sql(
            "insert into holdfast.workers (id, status, metadata) values "
            "(%s, %s, jsonb_build_object('host', %s::text, 'queues', '[\"mail\"]'::jsonb))",
            name, status, host,
        )  # fmt: skip
    return shell


def statuses(shell: Shell) -> dict[str, str]:
    return {row["id"]: row["status"] for row in shell.sql("select id, status from holdfast.workers")}


def test_drain_by_name(fleet: Shell) -> None:
    answer = fleet("workers", "drain", "a-2", "b-2", "--yes")
    assert answer.code == 0
    assert answer.out == "a-2 is draining\nb-2 was draining already, or has ended\n"
    assert statuses(fleet) == {"a-1": "alive", "a-2": "draining", "b-1": "alive", "b-2": "draining", "b-3": "dead"}


def test_drain_a_host(fleet: Shell) -> None:
    assert fleet("workers", "drain", "--host", "north", "--yes").out == "a-1 is draining\na-2 is draining\n"
    assert statuses(fleet)["b-1"] == "alive"
    assert fleet("workers", "drain", "--host", "west", "--yes").out == "no worker to drain\n"


def test_drain_everyone(fleet: Shell) -> None:
    assert fleet("workers", "drain", "--all", "--yes").code == 0
    assert set(statuses(fleet).values()) == {"draining", "dead"}


def test_a_worker_that_is_not_there_is_named_and_nothing_is_done(fleet: Shell) -> None:
    answer = fleet("workers", "drain", "a-1", "nobody", "--yes")
    assert answer.code == 1
    assert "There is no worker nobody" in answer.err
    assert "a-1" not in answer.err
    assert statuses(fleet)["a-1"] == "alive"


def test_drain_asks_first(fleet: Shell) -> None:
    assert fleet("workers", "drain", "a-1", stdin="n\n").code == 1
    assert statuses(fleet)["a-1"] == "alive"
    answer = fleet("workers", "drain", "--all", stdin="y\n")
    assert "Drain 3 workers?" in answer.all
    assert statuses(fleet)["a-1"] == "draining"


@pytest.mark.parametrize("words", [(), ("a-1", "--all"), ("--host", "north", "--all")])
def test_drain_wants_to_know_whom(fleet: Shell, words: tuple[str, ...]) -> None:
    answer = fleet("workers", "drain", *words, "--yes")
    assert answer.code == 2
    assert "expected worker ids, or --host NAME, or --all" in answer.err
    assert statuses(fleet)["a-1"] == "alive"


def test_who_owns_a_key(fleet: Shell) -> None:
    number = bucket("order:9182")
    expected = Ring(["a-1", "a-2", "b-1"]).owner(number)
    found = fleet("workers", "owner", "order:9182", "-q", "mail", "--json").json
    assert (found["bucket"], found["owner"]) == (number, expected)
    assert fleet("workers", "owner", "order:9182", "--json").json["owner"] is None  # nobody serves that queue
    assert f"{number}" in fleet("workers", "owner", "order:9182", "-q", "mail").out


def test_shares_of_owned_queues_are_listed(fleet: Shell) -> None:
    fleet.sql("alter table holdfast.queues add column if not exists owned boolean not null default false")
    fleet.sql("insert into holdfast.queues (name, owned) values ('mail', true), ('files', false)")
    shares = {row["id"]: row["shares"] for row in fleet("workers", "list", "--json").json}
    ring = Ring(["a-1", "a-2", "b-1"]).shares()
    assert shares == {**{name: {"mail": share} for name, share in ring.items()}, "b-2": {}, "b-3": {}}
    assert f"mail:{ring['a-1']}" in fleet("workers", "list").out
    assert "not owned" not in fleet("workers", "owner", "x", "-q", "mail").err


def test_different_time_zone_rules_are_named(fleet: Shell) -> None:
    assert "time zone rules" not in fleet("workers", "list").out
    for number, release in enumerate(["2025b, from /usr/share/zoneinfo", "2026.1, from the package tzdata"]):
        metadata = json.dumps({"queues": [], "time_zones": release})
        fleet.sql(f"insert into holdfast.workers (id, metadata) values ('z-{number}', '{metadata}')")
    said = fleet("workers", "list").out.splitlines()[-1]
    assert said.startswith(
        "time zone rules differ: 2025b, from /usr/share/zoneinfo; 2026.1, from the package tzdata; hosts may"
    )


def test_isolation_processes_are_shown_as_such(fleet: Shell) -> None:
    fleet.sql(
        "insert into holdfast.workers (id, metadata) values"
        """ ('a-9', '{"host": "north", "queues": [], "isolation": true}')"""
    )
    lines = {line.split()[0]: line for line in fleet("workers", "list").out.splitlines()[1:]}
    assert "(isolation)" in lines["a-9"]
    assert "(isolation)" not in lines["a-1"]
