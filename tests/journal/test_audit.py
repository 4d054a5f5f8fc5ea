"""Whatever an operator does is in the journal, with who did it, if and only if it was done."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast import Flow, Holdfast, InvalidInput, acting_as
from holdfast.db.acting import own_name
from holdfast.testing import run_until_parked
from tests.support.pooler import direct
from tests.support.workers import Inbox

NO_ACTIONS = {
    "close": "of this process",
    "dead_groups": "reads",
    "doctor": "reads",
    "endpoint": "reads",
    "endpoint_attempts": "reads",
    "enqueue_many": "work",
    "explain": "reads",
    "find_jobs": "reads",
    "incidents": "reads",
    "instance": "reads",
    "job": "reads",
    "list_endpoints": "reads",
    "list_instances": "reads",
    "list_schedules": "reads",
    "migrate": "see test_migrations_are_noted",
    "publish": "work",
    "receive": "work",
    "result": "reads",
    "test_endpoint": "changes nothing",
}
"""Verbs of `Holdfast` that are not noted, and why."""


class Scene:
    """An installation with something of everything."""

    def __init__(self, hf: Holdfast, inbox: Inbox) -> None:
        self.hf = hf
        self.inbox = inbox
        self.endpoint = UUID(int=0)

        @hf.task
        async def mail(to: str = "") -> None: ...

        @hf.workflow
        async def checkout(flow: Flow, order_id: int) -> None:
            await flow.step("charge", _charge, order_id)
            await flow.wait("shipped")

        self.mail, self.checkout = mail, checkout

    async def set_up(self) -> None:
        for name in ("one", "two"):
            await run_until_parked(self.hf, await self.checkout.options(id=name).start(order_id=1))
        self.inbox.rows("insert into holdfast.workers (id, status, metadata) values ('w1', 'alive', '{}')")
        self.inbox.rows(
            "insert into holdfast.routes (name, types, queue, max_attempts, destination) "
            "values ('bus', '{*}', 'out.bus', 5, 'nowhere'), ('webhooks', '{*}', 'out.webhooks', 5, 'endpoints')"
        )
        self.inbox.rows("select holdfast.publish('order.paid', '{}')")
        self.inbox.rows("delete from holdfast.journal")

    async def waiting(self) -> UUID:
        return (await self.mail.options(delay="1h", queue="mail").enqueue("ann")).id

    async def dead(self) -> UUID:
        id = await self.waiting()
        self.inbox.rows("update holdfast.inbox set status = 'dead_letter', dead_at = now() where id = %s", id)
        return id

    async def add_endpoint(self) -> UUID:
        self.endpoint = (await self.hf.add_endpoint("https://example.com/")).id
        return self.endpoint

    async def recover(self) -> None:
        self.inbox.rows(
            "insert into holdfast.inbox (partition_key, partition_bucket, kind, payload, queue, status, dead_at) "
            "values ('k', 1, '@deliver', jsonb_build_object('type', '@deliver', 'endpoint', %s::text), 'q', "
            "'dead_letter', now())", str(self.endpoint),
        )  # fmt: skip
        await self.hf.recover_endpoint(self.endpoint, since="1h")


async def _charge(order_id: int) -> None: ...


Do = Callable[[Scene], Awaitable[object]]


async def _replay(scene: Scene) -> None:
    assert await scene.hf.replay("bus", since=datetime.now(UTC) - timedelta(hours=1), types=["order.*"]) == 1


async def _replay_endpoint(scene: Scene) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    assert await scene.hf.replay_endpoint(scene.endpoint, since=since, types=["order.*"]) == 1


ACTIONS: dict[str, tuple[str, Do]] = {
    "pause": ("queue.paused", lambda s: s.hf.pause("mail")),
    "resume": ("queue.resumed", lambda s: s.hf.resume("mail")),
    "set_queue": ("queue.set", lambda s: s.hf.set_queue("mail", owned=True)),
    "revive": ("jobs.revived", lambda s: _then(s.dead(), lambda id: s.hf.revive([id]))),
    "discard": ("jobs.discarded", lambda s: _then(s.dead(), lambda id: s.hf.discard([id]))),
    "run_now": ("jobs.run_now", lambda s: _then(s.waiting(), lambda id: s.hf.run_now([id]))),
    "cancel": ("job.cancelled", lambda s: _then(s.waiting(), lambda id: s.hf.cancel(id, "no"))),
    "cancel_many": ("jobs.cancelled", lambda s: _then(s.waiting(), lambda id: s.hf.cancel_many([id]))),
    "drain_workers": ("worker.told_to_drain", lambda s: s.hf.drain_workers(["w1"])),
    "schedule": ("schedule.put", lambda s: s.hf.schedule("nightly", s.mail, every="1h")),
    "pause_schedule": ("schedule.paused", lambda s: s.hf.pause_schedule("nightly")),
    "resume_schedule": ("schedule.resumed", lambda s: s.hf.resume_schedule("nightly")),
    "reset_schedule": ("schedule.reset", lambda s: s.hf.reset_schedule("nightly")),
    "trigger_schedule": ("schedule.triggered", lambda s: s.hf.trigger_schedule("nightly")),
    "unschedule": ("schedule.removed", lambda s: s.hf.unschedule("nightly")),
    "add_endpoint": ("endpoint.added", lambda s: s.add_endpoint()),
    "pause_endpoint": ("endpoint.paused", lambda s: s.hf.pause_endpoint(s.endpoint)),
    "resume_endpoint": ("endpoint.enabled", lambda s: s.hf.resume_endpoint(s.endpoint)),
    "disable_endpoint": ("endpoint.disabled", lambda s: s.hf.disable_endpoint(s.endpoint)),
    "enable_endpoint": ("endpoint.enabled", lambda s: s.hf.enable_endpoint(s.endpoint)),
    "rotate_endpoint_secret": ("endpoint.rotated", lambda s: s.hf.rotate_endpoint_secret(s.endpoint)),
    "recover_endpoint": ("endpoint.recovered", lambda s: s.recover()),
    "replay": ("events.replayed", _replay),
    "replay_endpoint": ("endpoint.replayed", _replay_endpoint),
    "signal": ("workflow.signalled", lambda s: s.hf.signal("one", "later", 1)),
    "pause_instance": ("workflow.paused", lambda s: s.hf.pause_instance("one")),
    "resume_instance": ("workflow.resumed", lambda s: s.hf.resume_instance("one")),
    "restart_instance": ("workflow.restarted", lambda s: s.hf.restart_instance("one", "charge")),
    "cancel_instance": ("job.cancelled", lambda s: s.hf.cancel_instance("two")),
}
"""Every other verb: what is noted, and how to do it."""


async def _then(first: Awaitable[Any], act: Callable[[Any], Awaitable[object]]) -> None:
    assert await act(await first)


def test_every_verb_is_listed() -> None:
    verbs = {name for name in dir(Holdfast) if hasattr(Holdfast, f"{name}_sync")}
    assert verbs == ACTIONS.keys() | NO_ACTIONS.keys()


@pytest.fixture
async def scene(hf: Holdfast, inbox: Inbox) -> Scene:
    scene = Scene(hf, inbox)
    await scene.set_up()
    return scene


def rows(inbox: Inbox) -> list[tuple[str, str, str | None]]:
    found = inbox.rows("select what, subject, actor from holdfast.journal order by id")
    return [(row["what"], row["subject"], row["actor"]) for row in found]


async def test_every_action_has_its_row(scene: Scene, inbox: Inbox) -> None:
    for verb, (what, act) in ACTIONS.items():
        inbox.rows("delete from holdfast.journal")
        with acting_as("ann"):
            await act(scene)
        assert {(found, actor) for found, _, actor in rows(inbox)} == {(what, "ann")}, verb
    for what in {what for what, _ in ACTIONS.values()}:
        inbox.rows("insert into holdfast.journal (at, what, actor) values (now(), %s, 'ann')", what)
    assert all(each.text.startswith("ann ") for each in await scene.hf.incidents())


async def test_without_a_name_it_is_the_user_and_the_host(scene: Scene, inbox: Inbox) -> None:
    await scene.hf.pause("mail")
    assert rows(inbox) == [("queue.paused", "mail", own_name())]
    # What applications do as part of their work is in the journal only if somebody is named.
    await scene.hf.cancel(await scene.waiting())
    await scene.hf.cancel_many([await scene.waiting()])
    await scene.hf.signal("one", "later")
    assert len(rows(inbox)) == 1


async def test_what_changes_nothing_is_not_noted(scene: Scene, inbox: Inbox) -> None:
    await scene.hf.resume("mail")
    await scene.hf.pause("mail")
    await scene.hf.pause("mail")
    await scene.hf.revive([await scene.waiting()])
    await scene.hf.discard([UUID(int=1)])
    await scene.hf.run_now([UUID(int=1)])
    assert rows(inbox) == [("queue.paused", "mail", own_name())]


async def test_a_bulk_action_is_one_row_with_a_sample(scene: Scene, inbox: Inbox) -> None:
    ids = [await scene.dead() for _ in range(25)]
    await scene.hf.revive(ids)
    (row,) = inbox.rows("select subject, count, details from holdfast.journal")
    assert (row["subject"], row["count"], row["details"]["kinds"]) == ("mail", 25, ["mail"])
    assert len(row["details"]["jobs"]) == 20


def test_in_sql_the_actor_is_the_login_or_the_setting_and_rolls_back_with_the_action(inbox: Inbox) -> None:
    inbox.rows("delete from holdfast.journal")
    id = inbox.enqueue("job")
    inbox.rows("update holdfast.inbox set status = 'dead_letter', dead_at = now() where id = %s", id)
    with psycopg.connect(direct(inbox.url)) as connection:
        (login,) = connection.execute("select session_user::text").fetchone() or ("",)
        connection.execute("select holdfast.discard(array[%s])", [id])
        connection.rollback()
        connection.execute("select holdfast.discard(array[%s])", [id])
        connection.commit()
        connection.execute("select holdfast.cancel(array[%s])", [inbox.enqueue("job")])
        connection.execute("set local holdfast.actor = 'ann'")
        connection.execute("select holdfast.cancel(array[%s])", [inbox.enqueue("job")])
        connection.execute("select holdfast.note('shop.closed', 'mail', details => '{\"why\": \"night\"}')")
        connection.commit()
    assert rows(inbox) == [
        ("jobs.discarded", "default", login), ("jobs.cancelled", "", "ann"), ("shop.closed", "mail", "ann"),
    ]  # fmt: skip


async def test_a_name_is_text_that_can_be_shown(hf: Holdfast) -> None:
    for name in ("", "x" * 201, "two\nlines", "\x1b[2J", 7):
        with pytest.raises(InvalidInput), acting_as(name):  # type: ignore[arg-type]
            pass


def test_migrations_are_noted(inbox: Inbox) -> None:
    (row,) = inbox.rows("select subject, actor, details from holdfast.journal where what = 'schema.migrated'")
    assert row["actor"] == own_name()
    assert any("operating" in title for title in row["details"]["applied"])
