"""Rows of an owned queue whose row in `queues` somebody deleted by hand: no owner looks for them any more."""

import pytest
from tests.support.inbox import Session
from tests.support.pooler import database_at
from tests.support.workers import Inbox

from holdfast import Holdfast
from holdfast.housekeeping.loop import Housekeeper


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_queue_that_was_deleted_by_hand_strands_nothing(
    hf: Holdfast, inbox: Inbox, one: Session, ordered: bool
) -> None:
    await hf.set_queue("mail", owned=True, ordered=ordered)
    await hf.set_queue("other", owned=True)
    job = hf.task(name="job")(lambda: None)
    stranded = await job.options(queue="mail", key="k").enqueue()
    kept = await job.options(queue="other", key="k").enqueue()
    inbox.rows("delete from holdfast.queues where name = 'mail'")
    house = Housekeeper(database_at(inbox.url), 0.001, grace=0)
    try:
        assert (await house.round())["disown"] == 1
    finally:
        house._drop()
    claim = one.claim_guarded if ordered else one.claim
    assert [claim.id for claim in await claim(queues=("mail", "other"))] == [stranded.id]
    assert inbox.one("select owned from holdfast.inbox where id = %s", kept.id) is True
