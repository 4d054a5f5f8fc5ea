"""Error groups: failed attempts that are alike."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from holdfast import Holdfast
from holdfast.model.grouping import group_of, place_of
from holdfast.testing import drain
from tests.support.workers import Inbox


def group(message: str, kind: str = "mail", error: str = "KeyError", place: str = "shop:send") -> str:
    return group_of(kind, error, place, message)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 9182 is gone", "order 7 is gone"),
        ("'ann' is unknown", "'bob and company' is unknown"),
        ('no file "/a/b"', 'no file "/c"'),
        ("at 0xdeadbeef", "at 0x7f00aa10"),
        ("job 0199f0c2-1111-7abc-8def-001122334455 failed", "job 01a00000-2222-7000-9000-aabbccddeeff failed"),
        ("took 12.5 s", "took 0.25 s"),
    ],
)
def test_what_varies_from_job_to_job_does_not_count(one: str, other: str) -> None:
    assert group(one) == group(other)


def test_everything_else_counts() -> None:
    base = group("order 1 is gone")
    others = {
        group("order 1 is late"), group("order 1 is gone", kind="sms"), group("order 1 is gone", error="ValueError"),
        group("order 1 is gone", place="shop:charge"),
    }  # fmt: skip
    assert base not in others
    assert len(others) == 4
    assert len(base) == 16
    assert group("\ud800 half") != group("whole"), "any text has a group"


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError


def own_code(path: str) -> object:
    return Path(path).read_text()


def test_the_place_is_the_innermost_frame_of_the_application() -> None:
    assert place_of(raised(lambda: own_code("/nonexistent"))) == f"{__name__}:own_code"
    assert place_of(ValueError("never raised")) == ""
    grouped = BaseExceptionGroup("a task group", [raised(lambda: own_code("/nonexistent"))])
    assert place_of(grouped) == f"{__name__}:own_code"


async def test_dead_letters_by_group(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(max_attempts=1)
    async def send(to: str) -> None:
        raise ConnectionError(f"no answer from {to!r}")

    @hf.task(max_attempts=1)
    async def charge(order_id: int) -> None:
        raise KeyError(order_id)

    for name in ("ann", "bob", "cleo"):
        await send.enqueue(name)
    await charge.enqueue(1)
    await drain(hf, errors="retry")
    swept = inbox.enqueue("send", to="dan")
    inbox.rows(
        "update holdfast.inbox set status = 'processing', claimed_by = 'gone', lease_generation = 1, attempts = 5, "
        "lease_expires_at = now() - interval '1 minute' where id = %s", swept,
    )  # fmt: skip
    inbox.rows(
        "select * from holdfast.fail_attempts(array['gone'], array[%s], array[1::bigint], array['LeaseExpired: …'], "
        "array['{\"error\": \"LeaseExpired\"}'::jsonb], '{}', '{}', '{}')", swept,
    )  # fmt: skip
    by_hand = inbox.enqueue("send", to="eve")
    inbox.rows("update holdfast.inbox set status = 'dead_letter', dead_at = '2020-01-01' where id = %s", by_hand)

    found = await hf.dead_groups()
    assert [(each.kind, each.count, each.error) for each in found] == [
        ("send", 1, "LeaseExpired"), ("charge", 1, "KeyError"), ("send", 3, "ConnectionError"), ("send", 1, None),
    ]  # fmt: skip
    alike = found[2]
    assert alike.place == f"{__name__}:test_dead_letters_by_group.<locals>.send"
    assert alike.last_error == "ConnectionError: no answer from 'cleo'"
    assert alike.oldest is not None
    assert alike.newest is not None
    assert alike.oldest < alike.newest
    assert found[3].group is None
    assert not alike.more

    ids = await hf.find_jobs(status="dead_letter", group=alike.group)
    assert len(ids) == 3
    assert alike.id in ids
    assert await hf.revive(ids) == ids
    assert [each.count for each in await hf.dead_groups()] == [1, 1, 1]
    await drain(hf, errors="retry")
    assert {each.group for each in await hf.dead_groups()} >= {alike.group}, "they failed alike once more"


async def test_many_of_a_group_are_not_all_counted(hf: Holdfast, inbox: Inbox) -> None:
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, status, dead_at, error_group) "
        "select n::text, 1, '{\"type\": \"mail\"}', 'dead_letter', now(), case when n %% 3 = 0 then 'a' else 'b' end "
        "from generate_series(1, 3003) n"
    )
    assert {(each.group, each.count, each.more) for each in await hf.dead_groups()} == {
        ("a", 1000, True), ("b", 1000, True),
    }  # fmt: skip
    assert len(await hf.dead_groups(limit=1)) == 1


async def test_the_group_stays_in_the_record_of_the_attempt(hf: Holdfast, inbox: Inbox) -> None:
    @hf.task(max_attempts=1, process=False)
    async def send() -> None:
        raise ValueError("no")

    job = await send.enqueue()
    await drain(hf, errors="retry")
    row = inbox.job(UUID(str(job.id)))
    place = row["errors"][0]["place"]
    assert row["errors"][0]["group"] == group_of("send", "ValueError", place, "no")
