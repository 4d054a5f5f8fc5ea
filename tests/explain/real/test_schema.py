"""Installations of other releases than this one."""

from uuid import uuid4

import pytest
from tests.explain.real.conftest import Scene
from tests.schema.test_upgrade import released
from tests.support.causes import cause
from tests.support.pooler import database_at, direct

from holdfast import Holdfast
from holdfast.schema import migrate as runner
from holdfast.schema.migrate import Migration, migrate, migrations, newest


@cause("schema_older")
async def test_the_schema_is_of_an_earlier_release(scene: Scene, database_url: str) -> None:
    """The earlier schema is made by the migrations of its time; a whole earlier release is built in
    tests/schema/test_older_release.py, which takes too long for this."""
    released(database_url, newest() - 1)
    scene.hf, hf = Holdfast(database_url), scene.hf
    try:
        found = await scene.why(uuid4())
        assert [reason.code for reason in found.reasons] == ["schema_older"]
        assert f"is at version {newest() - 1}; this release needs version {newest()}" in found.answer.sentence
        scene.inbox.url = database_url
        await scene.obey(found.answer)  # holdfast migrate
        assert await scene.codes(uuid4()) == ["unknown"]
    finally:
        await scene.hf.close()
        scene.hf = hf


@pytest.mark.parametrize("version", [1, 6, 10, 17, 20])
async def test_explain_understands_every_earlier_schema(database_url: str, version: int) -> None:
    released(database_url, version)
    hf = Holdfast(database_url)
    try:
        assert [reason.code for reason in (await hf.explain(uuid4())).reasons] == ["schema_older"]
    finally:
        await hf.close()


@cause("schema_newer", "ended")
async def test_the_schema_is_of_a_later_release(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later release is this one with more migrations, which `holdfast migrate` of that release applies. The first
    says that it is compatible, and knows one more way to end; the second says nothing, so it is not."""
    compatible = Migration(newest() + 1, "later", "alter type holdfast.inbox_status add value 'withdrawn'", newest())
    changed = Migration(newest() + 2, "changed", "alter table holdfast.inbox add column later text", None)
    id = scene.inbox.enqueue("quick")
    await upgraded(scene, monkeypatch, compatible)
    assert await scene.codes(id) == ["no_worker"]
    withdraw = "with gone as (delete from holdfast.inbox where id = %s returning *) "
    scene.inbox.rows(
        withdraw
        + """insert into holdfast.archive (
            id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, status, attempts,
            max_attempts, lease_generation, available_at, created_at, finished_at)
        select id, seq, partition_key, partition_bucket, queue, priority, kind, payload, payload_version, 'withdrawn',
            attempts, max_attempts, lease_generation, available_at, created_at, holdfast.clock() from gone""",
        id,
    )
    found = await scene.until(id, "ended")
    assert found.answer.sentence.endswith("as withdrawn") and found.answer.sentence.startswith("it ended at 2")
    await upgraded(scene, monkeypatch, compatible, changed)
    found = await scene.until(id, "schema_newer", "ended")
    assert f"migration {newest() + 2} is not compatible with it" in found.answer.sentence
    assert found.answer.remedy == "install a newer holdfast"


async def upgraded(scene: Scene, monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    with monkeypatch.context() as later:
        later.setattr(runner, "migrations", lambda schema="holdfast": (*migrations(schema), *more))
        await migrate(database_at(direct(scene.inbox.url)))
