"""Shares, on a real registry: requirements 49 to 54, 56, 59 and 63."""

from collections.abc import AsyncIterator, Mapping

import asyncpg
import pytest
from tests.support.inbox import move_clock
from tests.support.pooler import database_at, direct
from tests.support.workers import Inbox

from holdfast.db.link import Link
from holdfast.model.keys import BUCKETS
from holdfast.ownership import members
from holdfast.ownership.shares import Share, Shares

ALL = tuple(range(BUCKETS))


@pytest.fixture
async def link(migrated_url: str) -> AsyncIterator[Link]:
    link = Link(database_at(migrated_url), "test")
    yield link
    await link.close()


async def join(link: Link, *workers: str, queues: tuple[str, ...] = ("mail",)) -> None:
    for worker in workers:
        await members.register(link, worker, {"queues": list(queues)})


async def view(link: Link, *workers: str, queue: str = "mail") -> dict[str, Share]:
    """The share of each, as it would see it now."""
    return {worker: (await Shares(link, worker).owned([queue]))[queue] for worker in workers}


def silent(inbox: Inbox, worker: str, seconds: float) -> None:
    inbox.rows(
        "update holdfast.workers set last_seen_at = holdfast.clock() - make_interval(secs => %s) where id = %s",
        seconds, worker,
    )  # fmt: skip


def disjoint_and_whole(shares: Mapping[str, Share]) -> bool:
    return sorted(bucket for share in shares.values() for bucket in share) == list(ALL)


async def test_the_live_workers_share_all_buckets(link: Link) -> None:
    await join(link, "a", "b", "c", "d")
    shares = await view(link, "a", "b", "c", "d")
    assert disjoint_and_whole(shares)
    assert all(150 < len(share) < 400 for share in shares.values())


async def test_one_alone_owns_everything_and_one_who_is_not_there_nothing(link: Link) -> None:
    assert await view(link, "a") == {"a": ()}
    await join(link, "a")
    assert await view(link, "a", "b") == {"a": ALL, "b": ()}


async def test_who_was_silent_for_30_seconds_owns_nothing(link: Link, inbox: Inbox) -> None:
    await join(link, "a", "b")
    silent(inbox, "b", 29)
    assert disjoint_and_whole(await view(link, "a", "b"))
    silent(inbox, "b", 31)
    assert await view(link, "a", "b") == {"a": ALL, "b": ()}
    silent(inbox, "a", 31)
    assert await view(link, "a", "b") == {"a": (), "b": ()}  # not even for itself
    await members.heartbeat(link, {"b": {}})
    assert await view(link, "a", "b") == {"a": (), "b": ALL}


async def test_silence_is_measured_by_the_database_s_clock(link: Link, migrated_url: str) -> None:
    await join(link, "a", "b")
    connection = await asyncpg.connect(direct(migrated_url))
    await move_clock(connection, 3600)
    await connection.close()
    await members.heartbeat(link, {"b": {}})
    assert await view(link, "a", "b") == {"a": (), "b": ALL}


@pytest.mark.parametrize("status", ["draining", "dead"])
async def test_who_drains_or_left_owns_nothing(link: Link, status: str) -> None:
    await join(link, "a", "b")
    await members.leave(link, "b", status)
    assert await view(link, "a", "b") == {"a": ALL, "b": ()}


async def test_a_heartbeat_does_not_make_a_draining_worker_a_member(link: Link) -> None:
    await join(link, "a", "b")
    await members.leave(link, "b", "draining")
    assert await members.heartbeat(link, {"a": {}, "b": {}}) == {"a": "alive", "b": "draining"}
    await join(link, "b")  # nor does registering again
    assert await view(link, "a", "b") == {"a": ALL, "b": ()}


async def test_only_those_who_serve_a_queue_share_it(link: Link) -> None:
    await join(link, "a", "b")
    await join(link, "c", queues=("mail", "files"))
    assert disjoint_and_whole(await view(link, "a", "b", "c"))
    assert await view(link, "a", "b", "c", queue="files") == {"a": (), "b": (), "c": ALL}


async def test_a_newcomer_moves_only_its_share(link: Link) -> None:
    await join(link, "a", "b", "c")
    before = await view(link, "a", "b", "c")
    await join(link, "d")
    after = await view(link, "a", "b", "c", "d")
    assert disjoint_and_whole(after)
    for worker in "abc":
        assert set(after[worker]) == set(before[worker]) - set(after["d"])
    assert 0.6 <= len(after["d"]) / (BUCKETS / 4) <= 1.5


async def test_two_sessions_see_the_same(link: Link, migrated_url: str) -> None:
    await join(link, "a", "b", "c")
    other = Link(database_at(migrated_url), "other")
    assert await view(link, "a", "b", "c") == await view(other, "a", "b", "c")
    await other.close()


async def test_a_registry_written_by_hand_does_no_harm(link: Link, inbox: Inbox) -> None:
    await join(link, "a")
    inbox.rows("insert into holdfast.workers (id) values ('part8')")
    inbox.rows("insert into holdfast.workers (id, metadata) values ('text', '\"mail\"'), ('none', null)")
    assert await view(link, "a") == {"a": ALL}


async def test_the_registry_is_not_read_once_per_claim(link: Link, inbox: Inbox) -> None:
    await join(link, "a")
    shares = Shares(link, "a", refresh=3600)
    for _ in range(100):
        assert await shares.owned(["mail"]) == {"mail": ALL}
    await join(link, "b")
    assert await shares.owned(["mail"]) == {"mail": ALL}
    assert (shares.refreshes, shares.changes) == (1, 1)
    shares._until = 0.0
    assert 0 < len((await shares.owned(["mail"]))["mail"]) < BUCKETS
    assert (shares.refreshes, shares.changes) == (2, 2)
    shares._until = 0.0
    await shares.owned(["mail"])
    assert (shares.refreshes, shares.changes) == (3, 2)  # looked, and nothing is new


async def test_a_view_grows_old(link: Link) -> None:
    await join(link, "a")
    shares = Shares(link, "a", refresh=1e-6)
    await shares.owned(["mail"])
    await join(link, "b")
    assert len((await shares.owned(["mail"]))["mail"]) < BUCKETS


async def test_a_queue_that_is_new_and_a_session_that_is_new_are_looked_up_at_once(link: Link) -> None:
    await join(link, "a", queues=("mail", "files"))
    shares = Shares(link, "a", refresh=3600)
    assert await shares.owned([]) == {}
    assert shares.refreshes == 0
    await shares.owned(["mail"])
    assert await shares.owned(["mail", "files"]) == {"mail": ALL, "files": ALL}
    assert await shares.owned(["files"]) == {"files": ALL}
    assert shares.refreshes == 2
    link.drop()
    await members.heartbeat(link, {"a": {}})  # connects again
    await shares.owned(["files"])
    assert shares.refreshes == 3
