"""Order per key, as whoever is on call meets it: how a queue is set up, and what a job waits for."""

from uuid import UUID

import pytest
from tests.cli.conftest import Shell

LIVE = """
    insert into holdfast.workers (id, metadata)
    values ('w1', '{"queues": ["default"], "kinds": {"pay": [1, 1]}}')
"""


def enqueue(shell: Shell, skips: bool = False) -> UUID:
    (row,) = shell.sql(
        "select holdfast.enqueue('pay', key => 'order:1', ordered => true, on_failure => %s) as id",
        "skip" if skips else "block",
    )
    return UUID(str(row["id"]))


def waits_for(shell: Shell, id: UUID) -> str:
    return str(shell("job", "show", str(id), "--json").json["next"])


def test_a_queue_is_set_up_and_shown(shell: Shell) -> None:
    assert shell("queue", "set", "shop", "--ordered", "--on-failure", "skip").out == "queue shop: ordered, skips\n"
    assert shell("queue", "set", "shop", "--owned").out == "queue shop: ordered, skips, owned\n"
    assert shell("queue", "set", "shop", "--no-ordered").out == "queue shop: owned\n"
    assert [row["mode"] for row in shell("queue", "list", "--json").json] == ["owned"]
    assert "mode" in shell("queue", "list").out.splitlines()[0]
    nothing = shell("queue", "set", "shop")
    assert (nothing.code, "expected --ordered, --on-failure or --owned" in nothing.err) == (2, True)


@pytest.mark.parametrize("status", ["pending", "blocked"])
def test_a_job_says_which_one_it_waits_for(shell: Shell, status: str) -> None:
    shell.sql(LIVE)
    head, following = enqueue(shell), enqueue(shell)
    shell.sql("update holdfast.inbox set status = %s where id = %s", status, following)
    assert waits_for(shell, following).startswith(f"it is behind job {head} of its key 'order:1': it has been due for ")
    assert waits_for(shell, head).startswith("it has been due for ")
    shell.sql(
        "update holdfast.inbox set status = 'processing', claimed_by = 'w1', lease_expires_at = now() + '1 h' "
        "where id = %s", head,
    )  # fmt: skip
    assert waits_for(shell, following).startswith(f"it is behind job {head} of its key 'order:1': it runs on worker w1")
    shell.sql(
        "update holdfast.inbox set status = 'pending', claimed_by = null, attempts = 1, lease_generation = 1, "
        "available_at = '2099-01-01' where id = %s", head,
    )  # fmt: skip
    assert waits_for(shell, following).startswith(
        f"it is behind job {head} of its key 'order:1': it waits for its retry after attempt 1"
    )
    assert shell("job", "show", str(following), "--json").json["blocked_by"] == str(head)
    shell.sql("update holdfast.inbox set status = 'dead_letter' where id = %s", head)
    assert "behind" not in waits_for(shell, following)


def test_a_head_that_may_be_skipped_blocks_nobody_while_it_waits(shell: Shell) -> None:
    shell.sql(LIVE)
    head, following = enqueue(shell, skips=True), enqueue(shell, skips=True)
    shell.sql("update holdfast.inbox set attempts = 1, available_at = '2099-01-01' where id = %s", head)
    assert waits_for(shell, following).startswith("it has been due for ")


def test_the_age_of_a_queue_counts_ordered_and_owned_jobs(shell: Shell) -> None:
    for queue, ordered, owned in (("a", True, False), ("b", False, True), ("c", True, True)):
        shell.sql(
            "insert into holdfast.inbox (partition_key, partition_bucket, payload, queue, ordered, owned, "
            "available_at) values ('k', 7, '{}', %s, %s, %s, now() - interval '1 h')", queue, ordered, owned,
        )  # fmt: skip
    ages = {row["queue"]: row["claim_age"] for row in shell("queue", "list", "--json").json}
    assert ages.keys() == {"a", "b", "c"}
    assert all(3600 <= age < 3700 for age in ages.values())
