"""The diagnosis is a pure function of the measurements: a case for each bottleneck, and for each thing worth a word."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.measure.diagnosis import diagnose
from holdfast.measure.measurements import Drain, Holder, Installation, Latency, Measurements, Server, Sessions
from holdfast.measure.report import report

SETTINGS = {
    "autovacuum": "on", "commit_delay": "0", "synchronous_commit": "on", "synchronous_standby_names": "",
    "shared_buffers": "128MB", "max_wal_size": "1GB", "idle_in_transaction_session_timeout": "0",
}  # fmt: skip
WELL = Measurements(
    server=Server("18.1", SETTINGS, pooler=False),
    round_trip=Latency(0.1, 0.3, 1000),
    commit=Latency(1.5, 4.0, 1000),
    enqueue=Latency(1.9, 5.0, 1000),
    bulk_rate=30_000.0,
    bulk_cpu=0.5,
    pickup=Latency(4.0, 9.0, 30),
    drain=Drain(200_000, 5.0, 40_000.0, 41_000.0, 0.5, Sessions(0.5, 0.3, 0.0, 0.0, 0.2, 400)),
    cores=4,
    uvloop=True,
)
IDLE_SESSION = Holder("session", "4711", 3600.0, "bob, psql, idle in transaction")
OWN = Installation("shop", due=0, claim_age=0.0, live_workers=2, busy=0.2, rate=500.0, live_rows=1000, dead_rows=200)


def with_server(found: Measurements = WELL, **changed: Any) -> Measurements:
    return replace(found, server=replace(found.server, **changed))


def with_settings(found: Measurements = WELL, **changed: str) -> Measurements:
    return with_server(found, settings={**SETTINGS, **changed})


def with_drain(found: Measurements = WELL, **changed: Any) -> Measurements:
    return replace(found, drain=replace(found.drain, **changed))


WAITED_FOR = Sessions(0.2, 0.2, 0, 0, 0.6, 9)
SLOWING = with_drain(last_quarter=9_000.0)
BLOATED = replace(WELL, installation=replace(OWN, live_rows=2_000, dead_rows=3_000_000))
SLOW_DISK = replace(WELL, commit=Latency(12.0, 30.0, 400))
BACKLOG = replace(WELL, installation=replace(OWN, due=9_000, claim_age=120.0, busy=1.0))

CASES = {
    "network": (
        replace(WELL, round_trip=Latency(10.2, 12.0, 300), commit=Latency(13.0, 20.0, 300)),
        "network",
        "HOLDFAST_DATABASE_URL",
        "10 ms",
    ),
    "network, both sides idle": (
        with_drain(
            replace(WELL, round_trip=Latency(0.6, 0.9, 300)), worker_cpu=0.2, sessions=Sessions(0.2, 0.2, 0, 0, 0.6, 9)
        ),
        "network",
        "HOLDFAST_DATABASE_URL",
        "0.60 ms",
    ),
    "commit, the disk": (SLOW_DISK, "commit", "the disk of pg_wal", "12 ms"),
    "commit, commit_delay": (with_settings(SLOW_DISK, commit_delay="10000"), "commit", "commit_delay", "12 ms"),
    "commit, a standby": (
        with_settings(SLOW_DISK, synchronous_standby_names="far"),
        "commit",
        "synchronous_standby_names",
        "12 ms",
    ),
    "commit, checkpoints": (
        replace(WELL, commit=Latency(8.0, 200.0, 300), checkpoints_asked=3),
        "commit",
        "max_wal_size",
        "8.00 ms",
    ),
    "commit, in the drain": (
        with_drain(sessions=Sessions(0.2, 0.7, 0, 0, 0.1, 9)),
        "commit",
        "the disk of pg_wal",
        "70%",
    ),
    "client CPU": (with_drain(worker_cpu=0.95), "client_cpu", "--processes", "95%"),
    "client CPU, waited for": (
        with_drain(sessions=Sessions(0.2, 0.2, 0, 0, 0.6, 9)),
        "client_cpu",
        "--processes",
        "60%",
    ),
    "server CPU": (WELL, "server_cpu", "cores of the server", "50%"),
    "disk": (with_drain(sessions=Sessions(0.2, 0.2, 0.6, 0, 0, 9)), "disk", "shared_buffers", "60%"),
    "lock": (with_drain(sessions=Sessions(0.2, 0.2, 0, 0.6, 0, 9)), "lock", "max_connections", "60%"),
    "horizon, in the drain": (
        with_server(SLOWING, holders=[IDLE_SESSION]),
        "horizon",
        "idle_in_transaction_session_timeout",
        "4711",
    ),
    "horizon, of the installation": (
        with_server(BLOATED, holders=[Holder("replication slot", "old", None, "not in use")]),
        "horizon",
        "pg_replication_slots",
        "3,000,000",
    ),
    "horizon, prepared": (
        with_server(SLOWING, holders=[Holder("prepared transaction", "tx 1", 60.0, "bob")]),
        "horizon",
        "max_prepared_transactions",
        "tx 1",
    ),
    "horizon, a standby": (
        with_server(SLOWING, holders=[Holder("standby", "99", None, "replica")]),
        "horizon",
        "hot_standby_feedback",
        "replica",
    ),
    "bloat": (BLOATED, "bloat", "autovacuum_max_workers", "3,000,000"),
    "bloat, autovacuum off": (with_settings(BLOATED, autovacuum="off"), "bloat", "autovacuum", "3,000,000"),
    "handler": (BACKLOG, "handler", "--concurrency", "500 jobs/s"),
}  # fmt: skip


def unwrapped(words: str) -> str:
    assert max(map(len, words.splitlines())) <= 120
    return " ".join(words.split())


@pytest.mark.parametrize("case", CASES)
def test_each_bottleneck_is_named_with_its_figures_and_its_setting(case: str) -> None:
    found, bottleneck, setting, figure = CASES[case]
    diagnosis = diagnose(found)
    assert (diagnosis.bottleneck, diagnosis.setting) == (bottleneck, setting)
    assert figure in diagnosis.why
    assert len(diagnosis.how) > 20
    words = unwrapped(report(found, diagnosis))
    assert diagnosis.title in words
    assert diagnosis.how in words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (with_server(holders=[IDLE_SESSION]), "held by session 4711 (bob, psql, idle in transaction, for 3,600 s)"),
        (with_settings(autovacuum="off"), "autovacuum is off"),
        (replace(WELL, checkpoints_asked=2), "2 checkpoints came early"),
        (with_server(pooler=True), "There is a pooler in between"),
        (with_settings(synchronous_commit="local", synchronous_standby_names="far"), "synchronous_commit is local"),
        (with_drain(sessions=Sessions()), "were not visible"),
        (replace(WELL, load=9.0), "load 9.0 on 4 cores"),
    ],
)
def test_what_else_was_seen_is_noted(found: Measurements, words: str) -> None:
    diagnosis = diagnose(found)
    assert any(words in note for note in diagnosis.notes), diagnosis
    assert words in unwrapped(report(found, diagnosis))


def test_what_is_well_gets_no_notes() -> None:
    assert diagnose(replace(WELL, installation=OWN)).notes == ()


def test_a_slow_quarter_of_a_short_drain_is_chance() -> None:
    short = with_drain(SLOWING, jobs=20_000)
    assert diagnose(with_server(short, holders=[IDLE_SESSION])).bottleneck == "server_cpu"


def test_a_holder_alone_slows_nothing_down() -> None:
    assert diagnose(with_server(holders=[IDLE_SESSION])).bottleneck == "server_cpu"


@pytest.mark.parametrize(
    "calm",
    [
        replace(OWN, due=9_000, claim_age=1.0, busy=1.0),  # just enqueued
        replace(OWN, due=9_000, claim_age=120.0, live_workers=0, busy=0.0),  # nobody is there to be slow
        replace(OWN, due=9_000, claim_age=120.0),  # of a kind that its workers do not know
        replace(OWN, due=9_000, claim_age=120.0, rate=38_000.0, busy=1.0),  # as fast as it gets
        replace(OWN, dead_rows=90_000),  # a vacuum is due, not overdue
        replace(OWN, live_rows=1_000_000, dead_rows=300_000),
    ],
)
def test_an_installation_that_is_not_held_up_is_not_blamed(calm: Installation) -> None:
    assert diagnose(replace(WELL, installation=calm)).bottleneck == "server_cpu"


def test_a_slow_way_outweighs_a_slow_disk_and_the_other_way_round() -> None:
    far = replace(WELL, round_trip=Latency(9.0, 10.0, 9), commit=Latency(16.0, 20.0, 9))
    assert diagnose(far).bottleneck == "network"
    assert diagnose(replace(far, commit=Latency(20.0, 30.0, 9))).bottleneck == "commit"


def test_percentiles() -> None:
    assert Latency.of([float(n) for n in range(100, 0, -1)]) == Latency(51.0, 100.0, 100)
    assert Latency.of([7.0]) == Latency(7.0, 7.0, 1)
