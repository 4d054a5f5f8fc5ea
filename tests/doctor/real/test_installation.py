"""The installation and its server: schema, partitions, plans, clocks, notifications, settings."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from tests.doctor.conftest import check_promise
from tests.doctor.real.conftest import Clinic
from tests.schema.test_upgrade import released
from tests.support.causes import cause
from tests.support.databases import SETTINGS, new_server
from tests.support.pooler import database_at, direct
from tests.support.proxy import proxied

from holdfast import Holdfast
from holdfast.cli import cli
from holdfast.db.database import Database
from holdfast.doctor.checks import notify
from holdfast.schema import migrate as runner
from holdfast.schema.migrate import Migration, migrate, migrations, newest
from holdfast.testing import drain, frozen_clock


@pytest.fixture(autouse=True)
def patience() -> None:
    """Not here: the limits of the check are the real ones."""


@cause("versions: fail: this release needs", "versions: fail: is not compatible with it")
async def test_the_schema_is_of_another_release(
    clinic: Clinic, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(database_url, newest() - 1)
    older = Holdfast(database_url)
    try:
        found = await clinic.find("versions", older)
        assert (found.level, found.remedy) == ("fail", "holdfast migrate")
        assert f"is at version {newest() - 1}; this release needs {newest()}" in found.sentence
        await command(database_url, "migrate")
        assert (await clinic.find("versions", older)).level == "ok"
    finally:
        await older.close()
    for number, oldest, level in ((1, newest(), "ok"), (2, None, "fail")):
        later = Migration(
            newest() + number, "later", f"alter table holdfast.inbox add column later{number} text", oldest
        )
        known = runner.migrations()
        with monkeypatch.context() as release:
            release.setattr(runner, "migrations", lambda schema="holdfast", all=(*known, later): all)
            await migrate(database_at(direct(clinic.inbox.url)))
        found = await clinic.find("versions")
        assert found.level == level, found
    assert f"migration {newest() + 2} is not compatible with it" in found.sentence
    assert migrations()[-1].version == newest()


async def command(url: str, *words: str) -> None:
    told = await asyncio.to_thread(CliRunner(env={"HOLDFAST_DATABASE_URL": url}).invoke, cli, list(words))
    assert told.exit_code == 0, told.output


@cause("partitions: warn: has partitions for", "partitions: fail: for tomorrow")
async def test_no_worker_has_made_partitions_for_days(clinic: Clinic) -> None:
    clinic.hf.task(name="job")(nothing)
    ahead = int((await clinic.find("partitions")).figure or 0)
    await clinic.later(86400 * (ahead - 2))
    found = await clinic.find("partitions")
    assert (found.level, "archive has partitions for 2 days ahead" in found.sentence) == ("warn", True)
    await clinic.later(86400 * 2)
    found = await clinic.find("partitions")
    assert (found.level, "there is no partition of archive for tomorrow" in found.sentence) == ("fail", True)
    async with clinic.hf.worker(heartbeat=0.1, housekeeping=0.1, poll=0.05):  # the remedy
        await clinic.until("partitions", "ok")


def nothing() -> None:
    pass


@cause("partitions: fail: there was no partition when they came")
async def test_a_job_ends_on_a_day_without_a_partition(clinic: Clinic) -> None:
    task = clinic.hf.task(name="job")(nothing)
    today = clinic.inbox.one("select to_char(holdfast.clock() at time zone 'UTC', 'YYYYMMDD')")
    clinic.inbox.rows(f"drop table holdfast.archive_{today}")
    await task.enqueue()
    await drain(clinic.hf)
    found = await clinic.find("partitions")
    assert (found.level, "1 row in archive_default" in found.sentence) == ("fail", True)


@cause("plan: warn: , which costs more with every row that waits")
async def test_somebody_makes_the_index_of_the_claim_again_with_other_columns(clinic: Clinic) -> None:
    (row,) = clinic.inbox.rows("select indexdef from pg_indexes where indexname = 'idx_inbox_claim'")
    clinic.inbox.rows("drop index holdfast.idx_inbox_claim")
    clinic.inbox.rows(row["indexdef"].replace("available_at, seq", "seq, available_at"))
    found = await clinic.find("plan")
    assert (found.level, "the claim sorts" in found.sentence) == ("warn", True)


@cause("clock: warn: the clock of the installation", "clock: fail: the clock of the installation")
async def test_the_clock_of_the_installation_is_frozen_and_stays_behind(clinic: Clinic) -> None:
    """By the verb for tests; another application looks."""
    tests = Holdfast(clinic.inbox.url)
    try:
        async with frozen_clock(tests) as clock:
            await clock.set(datetime.now(UTC) + timedelta(seconds=4))
            await clinic.until("clock", "warn", "somebody has frozen or moved it")
            await clock.advance("1h")
            await clinic.until("clock", "fail", "somebody has frozen or moved it")
            await command(clinic.inbox.url, "migrate")  # the remedy
            assert (await clinic.find("clock")).level == "ok"
    finally:
        await tests.close()


@cause("clock: warn: the clocks of this machine", "clock: fail: the clocks of this machine")
async def test_the_clock_of_this_machine_is_wrong(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test cannot set the clock of its machine: what this process reads is moved."""
    right = time.time
    for moved, level in ((3.0, "warn"), (-60.0, "fail"), (0.0, "ok")):
        monkeypatch.setattr(time, "time", lambda moved=moved: right() + moved)
        assert (await clinic.find("clock")).level == level


@pytest.mark.direct
@cause("notify: warn: a notification to ourselves takes", "notify: fail: did not arrive within")
async def test_notifications_are_slow_or_lost_on_the_way(clinic: Clinic) -> None:
    async with proxied(clinic.inbox.url) as proxy:
        through = Holdfast(proxy.url)
        try:
            proxy.delay = notify.WARN
            found = await clinic.find("notify", through)
            assert (found.level, found.unit, (found.figure or 0) > 100) == ("warn", "ms", True)
            proxy.delay, proxy.deaf = 0.0, True
            found = await clinic.find("notify", through)
            assert (found.level, "sleeping workers are not woken" in found.sentence) == ("fail", True)
        finally:
            await through.close()


@pytest.mark.pooled
@cause("pooler: warn: but pooler=True is not set", "notify: warn: connected through a pooler")
async def test_a_pooler_that_nobody_mentioned(clinic: Clinic) -> None:
    untold = Holdfast(clinic.inbox.url, pooler=False)
    try:
        found = await clinic.find("pooler", untold)
        assert (found.level, "HOLDFAST_POOLER=1" in (found.remedy or "")) == ("warn", True)
        assert (await clinic.find("notify", untold)).level == "warn"
    finally:
        await untold.close()
    assert (await clinic.find("pooler")).level == "ok"


@cause("settings: fail: is off: ")
async def test_a_server_that_was_started_with_unsafe_settings(request: pytest.FixtureRequest) -> None:
    names = ["fsync", "synchronous_commit", "full_page_writes", "autovacuum", "track_counts"]
    off: dict[str, str | int] = dict.fromkeys(names, "off")
    with new_server({**SETTINGS, "shared_buffers": "32MB", **off}) as server:
        await migrate(Database(server.url))
        hf = Holdfast(server.url, pooler=False)
        try:
            (found,) = await hf.doctor("settings")
        finally:
            await hf.close()
    check_promise(request, [found])
    assert found.sentence.startswith("fsync is off: a crash of the server loses acknowledged work")
    assert found.sentence.endswith(f"; also off: {', '.join(names[1:])}")
    assert (found.remedy or "").startswith("take fsync off the command line of the server, and restart it")
