"""Enqueueing jobs that leave no row: a lost answer must not become a second job, although nothing shows the first."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.enqueue.conftest import Inbox
from tests.enqueue.doors import installation
from tests.support.inbox import session
from tests.support.proxy import Proxy, proxied

from holdfast import Holdfast, OutcomeUnknown
from holdfast.calls import Calls
from holdfast.inbox import ending
from holdfast.model.ids import new_id
from holdfast.model.job import Claim
from holdfast.model.keep import keep_of
from holdfast.model.outcome import Completed

pytestmark = pytest.mark.direct  # which connection a pooler gives to a statement cannot be foreseen


@pytest.fixture
async def proxy(migrated_url: str) -> AsyncIterator[Proxy]:
    async with proxied(migrated_url) as proxy:
        yield proxy


@pytest.fixture
async def hf(proxy: Proxy) -> AsyncIterator[Holdfast]:
    async with installation(proxy.url) as hf:
        yield hf


async def complete_all(url: str) -> list[Claim]:
    """Claim and complete everything, as a worker whose task keeps nothing."""
    async with session(url) as worker:
        claims = await worker.claim(limit=1000, known={"mark": (1, 1), "kept": (1, 1)})
        await ending.write(worker, [(claim, Completed()) for claim in claims], keep=keep_of({"mark": 0}))
        return claims


@pytest.fixture
def completes_first(monkeypatch: pytest.MonkeyPatch, migrated_url: str) -> list[Claim]:
    """Before a retry, the job of the first try has completed."""
    ended: list[Claim] = []
    honest = Calls._insist

    async def insist(self: Calls, database: Any, ask: Any) -> Any:
        async def slowly(connection: Any, retried: bool) -> Any:
            if retried:
                ended.extend(await complete_all(migrated_url))
            return await ask(connection, retried)

        return await honest(self, database, slowly)

    monkeypatch.setattr(Calls, "_insist", insist)
    return ended


@pytest.mark.parametrize("options", [{}, {"unique_key": "u"}, {"id": new_id()}], ids=["plain", "unique", "own id"])
async def test_a_lost_answer_to_a_job_that_is_gone_is_reported(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, completes_first: list[Claim], options: dict[str, Any]
) -> None:
    @hf.task(keep=None)
    def mark(word: str) -> None: ...

    await mark.enqueue("connected")
    proxy.cut_after(b"unanswered", b"SELECT 1" if options else b"INSERT 0 1")
    with pytest.raises(OutcomeUnknown, match=r"the jobs of mark: with keep=None, .* Pass an idempotency_key"):
        await mark.options(**options).enqueue("unanswered")
    assert (proxy.cuts, len(completes_first)) == (1, 2)
    assert (await inbox.count(), await inbox.count("holdfast.archive")) == (0, 0), "a second job"


async def test_a_producer_need_not_know_that_the_task_keeps_nothing(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, completes_first: list[Claim]
) -> None:
    """Its workers say so in the database: other code, or a newer release of it, may run the jobs."""

    @hf.task
    def mark(word: str) -> None: ...

    await inbox.connection.execute(
        "insert into holdfast.kinds (kind, version, app, arguments, keep_days) values ('mark', 1, 'shop', '{}', 0)"
    )
    try:
        await mark.enqueue("connected")
        proxy.cut_after(b"unanswered", b"INSERT 0 1")
        with pytest.raises(OutcomeUnknown, match="the jobs of mark"):
            await mark.enqueue("unanswered")
    finally:
        await inbox.connection.execute("delete from holdfast.kinds")
    assert (proxy.cuts, len(completes_first)) == (1, 2)
    assert (await inbox.count(), await inbox.count("holdfast.archive")) == (0, 0), "a second job"


async def test_a_lost_answer_to_a_job_that_is_there_is_one_job(hf: Holdfast, proxy: Proxy, inbox: Inbox) -> None:
    @hf.task(keep=None)
    def mark(word: str) -> None: ...

    await mark.enqueue("connected")
    proxy.cut_after(b"unanswered", b"INSERT 0 1")
    job = await mark.enqueue("unanswered")
    assert (proxy.cuts, job.existed) == (1, False)
    assert [row["id"] for row in await inbox.jobs()][1:] == [job.id]


async def test_an_idempotency_key_makes_the_retry_safe(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, completes_first: list[Claim]
) -> None:
    @hf.task(keep=None)
    def mark(word: str) -> None: ...

    await mark.enqueue("connected")
    proxy.cut_after(b"unanswered", b"SELECT 1")
    job = await mark.options(idempotency_key="k").enqueue("unanswered")
    assert proxy.cuts == 1
    assert job.id in [claim.id for claim in completes_first]
    assert (await inbox.count(), await inbox.count("holdfast.archive")) == (0, 0)


async def test_a_server_that_says_no_has_answered(hf: Holdfast, inbox: Inbox) -> None:
    """As a primary that has become a standby does: nothing was stored, so the call is retried, and succeeds."""

    @hf.task(keep=None)
    def mark(word: str) -> None: ...

    await mark.enqueue("connected")
    await inbox.connection.execute(
        """
        create sequence public.tries;
        create function public.no() returns trigger language plpgsql as $$ begin
            if nextval('public.tries') = 1 then raise exception 'read only' using errcode = '25006'; end if;
            return new;
        end $$;
        create trigger no before insert on holdfast.inbox for each row execute function public.no();
        """
    )
    job = await mark.enqueue("refused once")
    assert [row["id"] for row in await inbox.jobs()][1:] == [job.id]


@pytest.mark.parametrize("copy", [False, True])
async def test_a_lost_commit_of_a_batch_that_is_gone_is_reported(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, completes_first: list[Claim], copy: bool
) -> None:
    @hf.task(keep=None)
    def mark(n: int) -> None: ...

    proxy.cut_after(b"COMMIT", b"COMMIT")
    with pytest.raises(OutcomeUnknown):
        await mark.enqueue_many([{"n": n} for n in range(100)], copy=copy)
    assert (proxy.cuts, len(completes_first)) == (1, 100)
    assert (await inbox.count(), await inbox.count("holdfast.archive")) == (0, 0), "a second batch"


async def test_one_row_that_is_kept_shows_that_the_batch_was_stored(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, completes_first: list[Claim]
) -> None:
    @hf.task(keep=None)
    def mark(n: int) -> None: ...

    @hf.task
    def kept(n: int) -> None: ...

    proxy.cut_after(b"COMMIT", b"COMMIT")
    jobs = await hf.enqueue_many([mark.job(1), kept.job(2), mark.job(3)])
    assert (proxy.cuts, len(completes_first)) == (1, 3)
    assert [row[0] for row in await inbox.connection.fetch("select id from holdfast.archive")] == [jobs[1].id]
    assert await inbox.count() == 0


async def test_a_batch_that_was_cut_off_before_its_commit_is_sent_again(
    hf: Holdfast, proxy: Proxy, inbox: Inbox
) -> None:
    @hf.task(keep=None)
    def mark(n: int) -> None: ...

    proxy.cut_after(b"COPY", b"G\0\0\0")  # the server is ready to read
    jobs = await mark.enqueue_many([{"n": n} for n in range(5000)], copy=True)
    assert proxy.cuts == 1
    assert [row["id"] for row in await inbox.jobs()] == [job.id for job in jobs]


async def test_an_outage_before_anything_was_sent_is_no_reason_to_give_up(
    hf: Holdfast, proxy: Proxy, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hf.task(keep=None)
    def mark(word: str) -> None: ...

    honest = Calls._here
    refused: list[bool] = []

    def refuse_once(self: Calls, database: Any) -> Any:
        if not refused:
            refused.append(True)
            raise ConnectionRefusedError("nobody listens")
        return honest(self, database)

    monkeypatch.setattr(Calls, "_here", refuse_once)
    job = await mark.enqueue("patient")
    assert refused and [row["id"] for row in await inbox.jobs()] == [job.id]
