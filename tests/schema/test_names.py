"""Nothing that another role puts into a schema on our search_path is ever run by us.

The attack: a role that may create in "public" (everybody may before PostgreSQL 15, and in databases that came from
there) makes functions and operators that match our calls better than the server's own do, say power(int, int).
"""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from uuid import UUID

import asyncpg
import psycopg
import pytest
from tests.conftest import migrated
from tests.support.databases import Server
from tests.support.inbox import Session, session
from tests.support.pooler import direct

from holdfast import Holdfast
from holdfast.db.statements import statement
from holdfast.schema.functions import functions
from holdfast.schema.migrate import migrations

ROOMS = (
    "inbox",
    "queues",
    "schedules",
    "housekeeping",
    "ownership",
    "webhooks",
    "receiving",
    "workflow",
    "worker/waking",
    "views",
    "metrics",
    "measure",
    "testing",
)
OF_ONE_SERVER = {("measure", "checkpoints"), ("measure", "checkpoints_before_17")}
"""A column of a system view each, which other versions of the server do not have."""
STATEMENTS = sorted(
    {
        (room, Path(file.name).stem)
        for room in ROOMS
        for file in files("holdfast").joinpath(room).iterdir()
        if file.name.endswith(".sql")
    }
    - OF_ONE_SERVER
)
CALL = re.compile(r"(?<![\w.])([a-z_0-9]+)\((?!\*)")
GRAMMAR = {"coalesce", "greatest", "least", "nullif", "extract", "overlay", "substring", "array", "row"}
"""Look like calls of functions, and are not looked up by their names; nor is "unnest" of several arrays."""
UNNEST_SEVERAL = re.compile(r"\bunnest\([^()]*,")


def calls(text: str) -> set[str]:
    """The functions that the text calls without naming their schema."""
    plain = "\n".join(line.partition("--")[0] for line in text.splitlines())
    plain = UNNEST_SEVERAL.sub("", re.sub(r"'[^']*'", "''", plain))
    return set(CALL.findall(plain)) - GRAMMAR


TEXTS = {name: statement(*name, "holdfast") for name in STATEMENTS}
CALLED = sorted(
    set[str]().union(
        *map(calls, [*TEXTS.values(), *(step.text for step in migrations()), *(step.text for step in functions())])
    )
)

TRAPS = """
create function public.sprung(what text) returns void language plpgsql as $$
begin
    raise exception 'trapped in %%', what;
end $$;

do $do$
declare
    scalars constant text[] := '{bool,int2,int4,int8,oid,float8,numeric,text,name,uuid,timestamptz,timestamp,date,
                                 interval,jsonb,xid8,tid,holdfast.inbox_status}';
    arrays  constant text[] := '{bool[],int2[],int4[],int8[],float8[],text[],uuid[],timestamptz[],jsonb[],tid[]}';
    called  constant text[] := (select array_agg(p.name order by p.name) from unnest('%s'::text[]) as p (name)
                                 where exists (select from pg_proc f where f.proname = p.name));
    pair    record;
    symbol  text;
    name    text;
begin
    for pair in
        select l, r from unnest(scalars) l, unnest(scalars) r
        union all select a, a from unnest(arrays) a
        union all select a, trim('[]' from a) from unnest(arrays) a
        union all select trim('[]' from a), a from unnest(arrays) a
    loop
        begin
            execute format('create function public.trap(l %%s, r %%s) returns bool language plpgsql as '
                '$$ begin perform public.sprung(%%L); return true; end $$', pair.l, pair.r, pair.l || ' ? ' || pair.r);
        exception when insufficient_privilege then
            continue;
        end;
        foreach symbol in array '{=,<>,<,<=,>,>=,+,-,*,/,||,->,->>,?,&,|,<<,>>,~,@>}'::text[] loop
            execute format('create operator public.%%s (leftarg = %%s, rightarg = %%s, function = public.trap)',
                           symbol, pair.l, pair.r);
        end loop;
        foreach name in array called loop
            execute format('create function public.%%I(l %%s, r %%s) returns bool language plpgsql as '
                '$$ begin perform public.sprung(%%L); return true; end $$', name, pair.l, pair.r, name);
        end loop;
    end loop;
    for pair in select t from unnest(scalars || arrays) t loop
        foreach name in array called loop
            begin
                execute format('create function public.%%I(l %%s) returns bool language plpgsql as '
                    '$$ begin perform public.sprung(%%L); return true; end $$', name, pair.t, name);
            exception when insufficient_privilege then
                null;
            end;
        end loop;
    end loop;
end
$do$;
"""


@pytest.fixture(scope="module")
def trapped_url(postgres: Server) -> Iterator[str]:
    """A migrated database in which a stranger has put functions and operators for nearly every call."""
    stranger = f"holdfast_stranger_{secrets.token_hex(4)}"
    with psycopg.connect(direct(postgres.url), autocommit=True) as admin:
        admin.execute(f"create role {stranger}".encode())
        try:
            with postgres.database(migrated(postgres)) as url:
                with psycopg.connect(direct(url)) as owner:
                    owner.execute(f"grant create, usage on schema public to {stranger}".encode())
                    owner.execute(f"grant usage on schema holdfast to {stranger}".encode())
                    owner.execute(f"set role {stranger}; set search_path = pg_catalog".encode())
                    owner.execute((TRAPS % ("{" + ",".join(CALLED) + "}")).encode())
                yield url
        finally:
            admin.execute(f"drop role {stranger}".encode())


TRAPPED = """
    select oid::text, oid::regprocedure::text from pg_proc where pronamespace = 'public'::regnamespace
    union all
    select oid::text, oid::regoperator::text from pg_operator where oprnamespace = 'public'::regnamespace
"""


def test_no_statement_finds_the_names_of_another(trapped_url: str) -> None:
    """By the server's own parser: no oid of the stranger's is in the tree that it makes of a statement."""
    found: dict[tuple[str, str], list[str]] = {}
    with psycopg.connect(direct(trapped_url), autocommit=True) as connection:
        traps: dict[str, str] = dict(connection.execute(TRAPPED).fetchall())
        connection.execute("set client_min_messages = log; set debug_print_parse = on; set debug_pretty_print = off")
        trees: list[str] = []
        connection.add_notice_handler(lambda notice: trees.append(notice.message_detail or ""))
        for name, text in TEXTS.items():
            trees.clear()
            try:
                connection.execute(f"prepare it as {text}".encode())
            except psycopg.Error as error:
                found[name] = [f"{error} (a trap is of another type)"]
                continue
            assert any("{QUERY" in tree for tree in trees)
            if sprung := traps.keys() & set(re.findall(r"\d+", " ".join(trees))):
                found[name] = [traps[oid] for oid in sprung]
            connection.execute("deallocate it")
    assert found == {}


LOOSE = """
    select distinct p.proname::text
    from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and '"any"'::regtype = any (p.proargtypes)
"""


def test_no_statement_calls_what_takes_anything_without_its_schema(migrated_url: str) -> None:
    """One of any number of arguments, say format(), is a worse match than one of just these; the traps take two."""
    with psycopg.connect(direct(migrated_url)) as connection:
        loose = {name for (name,) in connection.execute(LOOSE).fetchall()}
    assert {"format", "count", "jsonb_build_object"} <= loose
    assert {name: calls(text) & loose for name, text in TEXTS.items() if calls(text) & loose} == {}


FUNCTIONS = """
    select p.proname::text
    from pg_proc p
    where p.pronamespace = 'holdfast'::regnamespace
      and p.prosqlbody is null
      and not coalesce(p.proconfig, '{}') @> '{"search_path=pg_catalog, pg_temp"}'
"""


LEAN = {"wake", "in_time", "running_transactions"}
"""Part of every enqueue, or of every poll: a search_path would cost them more than their work, so their calls match
exactly. The attack below goes through all of them."""


def test_every_function_is_bound_or_pinned(migrated_url: str) -> None:
    """Its body was resolved when it was made, or it brings a search_path of its own."""
    with psycopg.connect(direct(migrated_url)) as connection:
        assert {name for (name,) in connection.execute(FUNCTIONS).fetchall()} == LEAN


# The attack itself, through the doors of an application and of a worker. Not behind a pooler: there the sessions are
# not ours to pin, and asyncpg's own statements run what they find (docs/sql.md says what to do).


def test_what_runs_as_its_caller_is_not_a_strangers(migrated_url: str) -> None:
    """Of the right types, nothing else would give it away."""
    with psycopg.connect(direct(migrated_url)) as owner:
        owner.execute("""
            create table public.caught (by text);
            create function public.power(int, int) returns float8 language plpgsql as
                $$ begin insert into public.caught values ('power, as ' || current_user); return 1; end $$;
            create function public.trap(l float8, r int) returns bool language plpgsql as
                $$ begin insert into public.caught values ('>, as ' || current_user); return true; end $$;
            create operator public.> (leftarg = float8, rightarg = int, function = public.trap);
        """)
        owner.execute("select holdfast.backoff(3), holdfast.wake('default', 0)")
        assert owner.execute("select by from public.caught").fetchall() == []


@pytest.fixture
async def worker(trapped_url: str) -> AsyncIterator[Session]:
    async with session(trapped_url, "worker") as opened:
        await opened.connection.execute("delete from holdfast.inbox; delete from holdfast.archive")
        yield opened


@pytest.mark.direct
async def test_enqueue_and_wake_run_nothing_of_another(trapped_url: str, worker: Session) -> None:
    hf = Holdfast(trapped_url)
    job = hf.task(name="job")(lambda n=1: None)
    in_order = hf.task(name="in_order", ordered=True)(lambda n=1: None)
    sleeper: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(direct(trapped_url))
    try:
        await sleeper.execute("select pg_catalog.pg_advisory_lock_shared(holdfast.flag('asleep', 'default'))")
        await job.enqueue()
        await job.options(delay="1h").enqueue()
        await in_order.options(key="order:1").enqueue()
        await job.options(idempotency_key="k").enqueue()
        await job.options(idempotency_key="k").enqueue()
        await job.enqueue_many([{"n": n} for n in range(5)])
        await job.enqueue_many([{"n": n} for n in range(5)], idempotency_keys=list("abcde"))
        await job.enqueue_many([{"n": n} for n in range(5)], copy=True)
        with psycopg.connect(direct(trapped_url)) as connection:
            job.on(connection).enqueue()
            connection.execute("select holdfast.enqueue('job', idempotency_key => 'sql')")
    finally:
        await sleeper.close()
        await hf.close()
    assert await worker.connection.fetchval("select pg_catalog.count(*) from holdfast.inbox") == 21


@pytest.mark.direct
async def test_a_worker_runs_nothing_of_another(worker: Session) -> None:
    """Claim, fail with its backoff, sweep, and complete; the plain claim and the guarded one."""
    await worker.connection.execute("""
        insert into holdfast.inbox (partition_key, partition_bucket, payload, available_at, ordered)
        select 'k', 1, '{"type": "job"}', '2026-01-01', o.ordered
        from pg_catalog.unnest('{f,f,f,t,t}'::boolean[]) as o (ordered)
    """)
    claims = [*await worker.claim(rescan=True), *await worker.claim_guarded(rescan=True)]
    assert len(claims) == 4
    failed, swept, *done = claims
    await worker.inbox("fail", [failed.id], [1], ["E: no"], ['{"error": "E"}'], [None], [False], [False], "w1")
    await worker.connection.execute(
        "update holdfast.inbox i set lease_expires_at = '2026-01-01'::timestamptz where i.id = $1", swept.id
    )
    begin = datetime(2025, 1, 1, tzinfo=UTC), UUID(int=0)
    await worker.run("housekeeping", "sweep", *begin, datetime.now(UTC), 10)
    await worker.inbox("complete", [one.id for one in done], [1, 1], [], [], [], "w1", [])
    waiting = await worker.connection.fetch(
        "select i.id from holdfast.inbox i where i.errors is not null and i.available_at > holdfast.clock()"
    )
    assert {row["id"] for row in waiting} == {failed.id, swept.id}
    assert await worker.connection.fetchval("select pg_catalog.count(*) from holdfast.archive") == 2
