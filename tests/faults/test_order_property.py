"""P1, P3, P4 and P8 under random plans.

Late commits, rollbacks, failures, cancellations, deaths, stale owners, buckets with two owners or none.

HOLDFAST_LONG=1 plays many more plans.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.support import order
from tests.support.order import (
    KEYS,
    Hire,
    Plan,
    Row,
    Transaction,
    World,
    alter_function,
    check,
    fresh_claims,
    play,
    prepare,
)
from tests.support.pooler import direct

from holdfast.db.database import Database
from holdfast.inbox import guarded
from holdfast.model.floor import Floor

pytestmark = pytest.mark.faults

EXAMPLES = 300 if os.environ.get("HOLDFAST_LONG") == "1" else 8
PATROL = 0.3

QUEUES = ["block"] * 4 + ["skip"] * 2 + ["owned"] * 3 + ["plain", "loose"]
FATES = ["complete"] * 14 + ["fail"] * 3 + ["doom", "abandon", "snooze", "hand back", "stall", "kill", "kill twice"]

rows = st.builds(
    Row,
    queue=st.sampled_from(QUEUES),
    key=st.sampled_from(KEYS),
    fate=st.sampled_from(FATES),
    ms=st.sampled_from([0, 0, 1, 5, 20]),
    priority=st.sampled_from([1, 1, 1, 0, 3]),
)
transactions = st.builds(
    Transaction,
    rows=st.lists(rows, min_size=1, max_size=3).map(tuple),
    hold_ms=st.sampled_from([0, 0, 0, 5, 30, 100, 300]),
    commits=st.sampled_from([True] * 5 + [False]),
    pause_ms=st.sampled_from([0, 0, 2, 10, 50]),
    cancels=st.sampled_from([False] * 5 + [True]),
)
hires = st.builds(
    Hire,
    capacity=st.sampled_from([50, 50, 3, 1]),
    hand_over=st.sampled_from(["take", "take", "take", "leave", "never"]),
)
plans = st.builds(
    Plan,
    producers=st.lists(st.lists(transactions, min_size=4, max_size=8).map(tuple), min_size=4, max_size=4).map(tuple),
    workers=st.tuples(hires, hires, hires),
    shares=st.lists(st.tuples(*[st.frozensets(st.sampled_from(KEYS))] * 3), max_size=5).map(tuple),
    linger_ms=st.sampled_from([0, 0, 2, 10]),
)


@pytest.fixture
def noted_url(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database that notes each change; workers that patrol more often than they usually do."""
    asyncio.run(prepare(migrated_url))
    monkeypatch.setattr(guarded, "PATROL_EVERY", PATROL)
    return migrated_url


@pytest.mark.timeout(1200)
def test_order_holds_through_everything(noted_url: str) -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example takes seconds, and races do not shrink
    )  # fmt: skip
    @given(plan=plans)
    def hold(plan: Plan) -> None:
        world = asyncio.run(play(noted_url, plan))
        check(world)
        seen.update(
            jobs=len(world.committed),
            claims=sum(1 for change in world.changes if change.claims),
            blocked=sum(1 for change in world.changes if change.after == "blocked"),
            fresh=len(list(fresh_claims(world))),
            deaths=world.deaths,
            stale=len(world.stale),
            dropped=len(world.dropped),
        )

    for _ in range(4):  # a few plans may leave something out, by chance
        hold()
        if all(seen.values()):
            break
    print(dict(seen))
    assert all(seen.values()), f"the plans left something out: {dict(seen)}"


# The same plan, with one guard after another taken away: what the checks are worth.


def crowd() -> Plan:
    """Everybody wants the same key; on another, single rows are committed late."""
    row, late = Row("block", "a", ms=3), Transaction((Row("block", "b"),), hold_ms=250)
    eager = (Transaction((row,), pause_ms=1),) * 12
    return Plan((eager, (Transaction((row, row)), late) * 4), (Hire(), Hire(), Hire()))


def play_crowd(url: str) -> World:
    return asyncio.run(play(url, crowd()))


def latecomer() -> Plan:
    """One row, committed when every worker has looked beyond it: the second of its looks began after the enqueue."""
    return Plan(((Transaction((Row("block", "b"),), hold_looks=2),),), (Hire(), Hire(), Hire()))


@pytest.mark.parametrize("plan", [crowd, latecomer])
def test_with_all_its_guards_all_is_well(noted_url: str, plan: Callable[[], Plan]) -> None:
    check(asyncio.run(play(noted_url, plan())))


async def newest_first(url: str) -> None:
    await alter_function(url, "heads", ("order by i.seq\n", "order by i.seq desc\n"))


async def several_at_a_time(url: str) -> None:
    await alter_function(url, "heads", ("p.ordered and p.status = 'processing'", "false"))
    connection = await asyncpg.connect(direct(url))
    await connection.execute("drop index holdfast.idx_inbox_partition_processing")
    await connection.close()


@pytest.mark.parametrize(
    ("take_away", "broken"),
    [(newest_first, "P8: .* ended after its claim"), (several_at_a_time, "P8: .* was claimed while")],
)
def test_without_its_guards_order_is_lost_and_that_is_seen(
    noted_url: str, take_away: Callable[[str], Coroutine[None, None, None]], broken: str
) -> None:
    asyncio.run(take_away(noted_url))
    world = play_crowd(noted_url)
    with pytest.raises(AssertionError, match=broken):
        check(world)


def test_a_generation_that_does_not_rise_is_seen(noted_url: str) -> None:
    stuck = "lease_generation = i.lease_generation + 1", "lease_generation = 1"
    asyncio.run(alter_function(noted_url, "claim_guarded", stuck))
    world = asyncio.run(play(noted_url, Plan(((Transaction((Row("block", "a", "doom"),)),),), (Hire(),))))
    with pytest.raises(AssertionError, match="P4"):
        check(world)


def test_a_stale_owner_that_can_write_is_seen(noted_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Database.sql

    def unfenced(database: Database, room: str, name: str) -> str:
        text = honest(database, room, name)
        if (room, name) != ("inbox", "complete"):
            return text
        assert "and i.lease_generation = c.generation" in text and "i.claimed_by = $6" in text
        text = text.replace("and i.lease_generation = c.generation", "").replace(
            "and i.status::text = 'processing'", ""
        )
        return text.replace("i.claimed_by = $6", "$6::text is not null")

    monkeypatch.setattr(Database, "sql", unfenced)
    row = Row("block", "a", "stall", ms=1000)  # its second run is still at work when the first one wakes up
    world = asyncio.run(play(noted_url, Plan(((Transaction((row,)),),), (Hire(), Hire()))))
    with pytest.raises(AssertionError, match="P3"):
        check(world)


def test_a_row_that_is_passed_over_is_seen(noted_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescans that begin where the last claim ended: a late commit waits for a patrol, which takes its time here."""
    monkeypatch.setattr(guarded, "PATROL_EVERY", 6.0)
    monkeypatch.setattr(order, "BOUND", 3600.0)  # it would be seen by its wait, too
    honest = Floor.starts
    monkeypatch.setattr(Floor, "starts", lambda floor, rescan: honest(floor, False))
    world = asyncio.run(play(noted_url, latecomer()))
    with pytest.raises(AssertionError, match=r"rescans of .* passed"):
        check(world)
