"""The chore of the journal: bursts of dead letters, and what is old."""

from datetime import UTC, datetime, timedelta

from tests.support.workers import Inbox

from holdfast.housekeeping.loop import Housekeeper


def die(inbox: Inbox, count: int, at: datetime, group: str | None = "a", kind: str = "mail") -> None:
    inbox.rows(
        "insert into holdfast.inbox (partition_key, partition_bucket, payload, queue, status, dead_at, error_group, "
        "last_error, errors) select n::text, 1, jsonb_build_object('type', %s::text), 'out', 'dead_letter', "
        "%s::timestamptz + make_interval(secs => n), %s, 'KeyError: 7', "
        "'[{\"error\": \"KeyError\", \"place\": \"shop:send\"}]' from generate_series(1, %s) n",
        kind, at, group, count,
    )  # fmt: skip


def noted(inbox: Inbox) -> list[tuple[str, int]]:
    rows = inbox.rows(
        "select subject, count from holdfast.journal where what = 'dead_letters.burst' order by at, subject"
    )
    return [(row["subject"], row["count"]) for row in rows]


def minute(ago: int) -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=ago)


async def test_ten_alike_in_a_minute_are_a_burst(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("insert into holdfast.chores (name, ran_at, floor) values ('journal', '2000-01-01', %s)", minute(10))
    die(inbox, 12, minute(5))
    die(inbox, 11, minute(4))
    die(inbox, 9, minute(3), "b")
    die(inbox, 10, minute(3), None, "by_hand")
    die(inbox, 30, minute(30), "old")
    await house.round()
    assert noted(inbox) == [("a", 12), ("a", 11), ("by_hand", 10)]
    (first, *_) = inbox.rows("select * from holdfast.journal where what = 'dead_letters.burst' order by at")
    assert first["details"] == {
        "queue": "out", "kind": "mail", "error": "KeyError", "place": "shop:send", "message": "KeyError: 7",
        "group": "a",
    }  # fmt: skip
    assert first["until"] - first["at"] == timedelta(seconds=11)


async def test_a_burst_is_noted_once_whoever_looks(inbox: Inbox, house: Housekeeper) -> None:
    die(inbox, 12, minute(5))
    for _ in range(2):
        inbox.rows(
            "insert into holdfast.chores (name, ran_at, floor) values ('journal', '2000-01-01', %s) "
            "on conflict (name) do update set ran_at = excluded.ran_at, floor = excluded.floor", minute(10),
        )  # fmt: skip
        await house.round()
    assert noted(inbox) == [("a", 12)]


async def test_rows_are_kept_for_weeks(inbox: Inbox, house: Housekeeper) -> None:
    inbox.rows("delete from holdfast.journal")
    inbox.rows(
        "insert into holdfast.journal (at, what, subject) "
        "select now() - make_interval(days => n), 'x', n::text from unnest(array[1, 41, 43, 400]) n"
    )
    inbox.rows(
        "insert into holdfast.journal (at, what) "
        "select now() - interval '50 days', 'many' from generate_series(1, 2500)"
    )
    await house.round()
    left = inbox.rows("select subject from holdfast.journal order by at desc")
    assert [row["subject"] for row in left] == ["1", "41"]
    inbox.rows("update holdfast.settings set value = '7' where name = 'journal_days'")
    inbox.rows("update holdfast.chores set ran_at = '2000-01-01' where name = 'journal'")
    await house.round()
    assert inbox.one("select count(*) from holdfast.journal") == 1
