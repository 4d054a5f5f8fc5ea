"""`holdfast workflow …`: instances as an operator sees them, and new code checked against their histories."""

import asyncio
import re
import sys
import textwrap

import pytest
from tests.cli.conftest import Shell
from tests.support.pooler import direct
from tests.support.proxy import proxied

from holdfast import Backoff, Flow, Holdfast, Workflow
from holdfast.testing import drain, frozen_clock

CODE = """
from holdfast import Flow, Holdfast

hf = Holdfast()


def reserve(order_id: int) -> str:
    raise AssertionError("a check must not call steps")


@hf.workflow(name="checkout", version=1)
async def checkout(flow: Flow, order_id: int) -> str:
    await flow.step("reserve", reserve, order_id)
    await flow.sleep("grace", "15m")
    await flow.wait("shipped", timeout="3d")
    return "done"
"""


def reserve(order_id: int) -> str:
    return f"shelf {order_id}"


def declared(url: str) -> tuple[Holdfast, Workflow[[int], str], Workflow[[], None]]:
    hf = Holdfast(url)

    @hf.workflow(name="checkout", version=1)
    async def checkout(flow: Flow, order_id: int) -> str:
        await flow.step("reserve", reserve, order_id)
        await flow.sleep("grace", "15m")
        await flow.wait("shipped", timeout="3d")
        return "done"

    @hf.workflow(name="broken")
    async def broken(flow: Flow) -> None:
        await flow.step("break", _break, max_attempts=2, retry=Backoff(base=60, jitter=0))

    return hf, checkout, broken


async def _break() -> None:
    raise ValueError("no luck")


@pytest.fixture
def parked(shell: Shell) -> Shell:
    """A shell with an instance that sleeps."""

    assert shell.url is not None
    hf, checkout, _ = declared(shell.url)

    async def work() -> None:
        try:
            await checkout.options(id="checkout:1").start(1)
            await drain(hf)
        finally:
            await hf.close()

    asyncio.run(work())
    return shell


def test_the_life_of_an_instance(parked: Shell) -> None:
    listed = parked("workflow", "list").out
    assert re.search(r"checkout:1 +checkout +1 +sleeping .*timer grace", listed)
    (row,) = parked("workflow", "list", "--json", "--workflow", "checkout", "--state", "sleeping").json
    assert (row["id"], row["state"], row["waits"]) == ("checkout:1", "sleeping", ["timer:grace"])
    assert parked("workflow", "list", "--state", "dead letter").out == "no such instances\n"

    shown = parked("workflow", "show", "checkout:1").out
    assert re.search(r"^state +sleeping since .*Z \(\d+", shown, re.M)
    assert re.search(r"^until +.*Z \(in 14 m", shown, re.M)
    assert re.search(r"Z +\d+ ms +reserve +done: shelf 1$", shown, re.M)
    assert re.search(r"Z +- +grace +sleeps until .*Z \(in 14 m", shown, re.M)
    assert parked("workflow", "show", str(row["job_id"])).out.splitlines()[0] == shown.splitlines()[0]

    kept = parked("workflow", "signal", "checkout:1", "shipped", '{"a": 1}', "--id", "one").out
    assert kept == (
        "kept: the instance is not waiting for it now (it is sleeping: timer grace); "
        "its next wait for 'shipped' takes it\n"
    )
    known = parked("workflow", "signal", "checkout:1", "shipped", "--id", "one").out
    assert known == "known: it was sent before with this id; nothing was added\n"
    became = parked("workflow", "signal", "checkout:1", "shipped", "--id", "one", "--json").json
    assert became == {"instance": "checkout:1", "signal": "shipped", "became": "known"}
    assert 'signal shipped {"a":1}, sent ' in parked("workflow", "show", "checkout:1").out

    assert "is paused; holdfast workflow resume checkout:1" in parked("workflow", "pause", "checkout:1").out
    assert parked("workflow", "list", "--json").json[0]["state"] == "paused"
    assert parked("workflow", "resume", "checkout:1").out == "it continues\n"
    assert "nothing was done" in parked("workflow", "resume", "checkout:1").out

    restarted = parked("workflow", "restart", "checkout:1", "--from", "grace", "--yes")
    assert restarted.out == "1 step forgotten; it runs again from grace\n"
    assert parked("workflow", "cancel", "checkout:1", "--yes").out == "its steps are being undone; then it ends\n"
    whole = parked("workflow", "show", "checkout:1", "--json").json
    assert [step["name"] for step in whole["steps"]] == ["reserve"]
    assert whole["arguments"] == {"order_id": 1} and whole["cancel_requested_at"] is not None


def test_an_ended_instance(parked: Shell) -> None:
    assert parked.url is not None
    hf, *_ = declared(parked.url)

    async def finish() -> None:
        async with frozen_clock(hf) as clock:
            while (await drain(hf)).left and await clock.skip() is not None:
                pass
        await hf.close()

    asyncio.run(finish())
    shown = parked("workflow", "show", "checkout:1").out
    assert re.search(r"^state +completed since", shown, re.M)
    assert re.search(r"grace +slept$", shown, re.M) and re.search(r"shipped +timed out$", shown, re.M)
    steps = [line for line in shown.splitlines() if re.search(r"(reserve|grace|shipped) +\S", line)]
    assert len(steps) == 3 and all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in steps), "when each began"
    assert re.search(r"^result +done$", shown, re.M)
    hint = "one that you have just started is listed once a worker has registered its workflow"
    assert parked("workflow", "list").out == f"no live instances; {hint}\n"
    for words in (["pause"], ["cancel", "--yes"]):
        answer = parked("workflow", *words, "checkout:1")
        assert (answer.code, "no live workflow instance 'checkout:1'; it has ended" in answer.err) == (1, True)
    late = parked("workflow", "signal", "checkout:1", "shipped").out
    assert late == "ended: the instance has ended; nothing was added\n"
    assert check(parked, CODE) == (0, "No live instances: nothing to check\n")


def test_a_signal_that_is_waited_for(parked: Shell) -> None:
    assert parked.url is not None
    hf, *_ = declared(parked.url)

    async def past_the_sleep() -> None:
        async with frozen_clock(hf) as clock:
            await clock.skip()
            await drain(hf)
        await hf.close()

    asyncio.run(past_the_sleep())
    parked("workflow", "pause", "checkout:1")
    kept = parked("workflow", "signal", "checkout:1", "shipped").out
    assert kept == "kept: the instance is paused; its wait for 'shipped' takes it when it continues\n"
    parked("workflow", "resume", "checkout:1")
    woken = parked("workflow", "signal", "checkout:1", "shipped").out
    assert woken == "woken: the instance was waiting for it and continues\n"


def test_an_instance_whose_workflow_no_worker_has_registered(shell: Shell) -> None:
    assert shell.url is not None
    hf, checkout, _ = declared(shell.url)

    async def start() -> None:
        await checkout.options(id="checkout:1").start(1)
        await hf.close()

    asyncio.run(start())
    answer = shell("workflow", "show", "checkout:1")
    assert answer.code == 1
    assert "No workflow instance 'checkout:1' is known. If you have just started it, start a worker" in answer.err
    signalled = shell("workflow", "signal", "checkout:1", "shipped").out
    assert signalled == "kept: the instance is not waiting for it now; its next wait for 'shipped' takes it\n"


def test_a_signal_is_kept_and_then_the_server_is_gone(parked: Shell) -> None:
    async def signal() -> tuple[int | None, bytes]:
        assert parked.url is not None
        async with proxied(direct(parked.url)) as proxy:
            proxy.cut_after(b"holdfast.workflows", b"")  # where the instance stands, asked after the signal
            done = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "holdfast.cli", "workflow", "signal", "checkout:1", "shipped",
                env=parked.variables({"HOLDFAST_DATABASE_URL": proxy.url}), stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await done.communicate()
            assert proxy.cuts == 1
            return done.returncode, out

    said = b"kept: the instance is not waiting for it now; its next wait for 'shipped' takes it\n"
    assert asyncio.run(signal()) == (0, said)
    assert [row["name"] for row in parked.sql("select name from holdfast.signals")] == ["shipped"]


def test_a_job_that_is_not_a_workflow(shell: Shell) -> None:
    answer = shell("workflow", "show", str(shell.enqueue()))
    assert (answer.code, "Or it is not a workflow: see holdfast job show" in answer.err) == (1, True)


def test_retries_and_a_dead_letter(shell: Shell) -> None:
    assert shell.url is not None
    hf, _, broken = declared(shell.url)

    async def fail(times: int) -> None:
        async with frozen_clock(hf) as clock:
            if times == 1:
                await broken.options(id="b").start()
            else:
                await clock.advance("1h")
            await drain(hf, errors="retry")
        await hf.close()

    asyncio.run(fail(1))
    shown = shell("workflow", "show", "b").out
    assert re.search(r"break +failed 1 time; retried at .*Z$", shown, re.M)
    assert "failed: " in shown and "ValueError: no luck" in shown
    asyncio.run(fail(2))
    shown = shell("workflow", "show", "b").out
    assert re.search(
        r"^next +nothing, until you resume, restart or cancel it: holdfast workflow resume b$", shown, re.M
    )
    assert re.search(r"break +failed 2 times$", shown, re.M)
    assert "last error: ValueError: step break: no luck" in shown


def test_mistakes(shell: Shell) -> None:
    for words in (["show", "x"], ["signal", "x", "go"], ["pause", "x"], ["resume", "x"], ["cancel", "x", "--yes"]):
        answer = shell("workflow", *words)
        assert (answer.code, "There is no workflow instance 'x'" in answer.err) == (1, True), answer.all
    assert shell("workflow", "restart", "x", "--from", "a", "--yes").code == 1
    bad = shell("workflow", "signal", "x", "go", "{")
    assert (bad.code, "payload: expected JSON" in bad.err) == (1, True)


def check(shell: Shell, code: str, *words: str, name: str = "shop") -> tuple[int, str]:
    (shell.folder / f"{name}.py").write_text(textwrap.dedent(code))
    answer = shell("workflow", "check", f"{name}:hf", *words)
    return answer.code, answer.all


def test_code_that_fits(parked: Shell) -> None:
    assert check(parked, CODE) == (0, "1 live instance: it continues with this code\n")
    # It calls nothing, and writes nothing.
    before = parked.sql("select * from holdfast.steps order by ordinal")
    later = CODE.replace('await flow.wait("shipped"', 'await flow.wait("delivered"')
    assert check(parked, later, name="later")[0] == 0, "what has not begun may change"
    assert parked.sql("select * from holdfast.steps order by ordinal") == before


@pytest.mark.parametrize(
    ("old", "new", "verdict", "problem"),
    [
        ('"reserve", reserve', '"book", reserve', "diff", "recorded, and not asked for by this code: reserve"),
        ("version=1", "version=2", "unknown version", "this code has version 2; the instance began with 1"),
        ('name="checkout", version=1', 'name="other"', "", ""),
        ("(order_id: int) -> str", "(order_id: int) -> int", "undecodable", "recorded result of reserve"),
        ("order_id: int) -> str:\n    await", "order_id: bytes) -> str:\n    await", "undecodable", "does not fit"),
        ('    return "done"', '    return "done"\n\n\nhf.tasks["checkout"]._definition', "ok", ""),
        ('    await flow.sleep("grace", "15m")', '    raise KeyError("x")', "raised", "KeyError"),
    ],
)  # fmt: skip
def test_code_that_does_not_fit(parked: Shell, old: str, new: str, verdict: str, problem: str) -> None:
    assert old in CODE
    code, said = check(parked, CODE.replace(old, new, 1))
    if verdict in ("", "ok"):
        assert code == 0, said
    else:
        assert code == 1, said
        assert said.startswith(f"{verdict}: checkout:1 (checkout version 1): ") and problem in said


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (CODE, ""),
        (CODE.replace("version=1", "version=2"), "unknown version"),
        (CODE.replace("order_id: int) -> str:\n    await", "order_id: bytes) -> str:\n    await"), "undecodable"),
        (CODE.replace('"reserve", reserve', '"book", reserve'), ""),
    ],
)
def test_an_instance_that_has_not_begun(shell: Shell, code: str, verdict: str) -> None:
    """Other steps do not matter to it, but its version and its arguments do."""
    assert shell.url is not None
    hf, checkout, _ = declared(shell.url)

    async def start() -> None:
        await checkout.options(id="checkout:1").start(1)
        await hf.close()

    asyncio.run(start())
    exit_code, said = check(shell, code)
    if verdict:
        assert (exit_code, said.startswith(f"{verdict}: checkout:1 (checkout version 1): ")) == (1, True), said
    else:
        assert (exit_code, said) == (0, "1 live instance: it continues with this code\n")


def test_a_diff_shows_both(parked: Shell) -> None:
    code, said = check(parked, CODE.replace('"reserve", reserve', '"book", reserve', 1))
    assert code == 1
    assert re.search(r"^    recorded +this code$", said, re.M)
    assert re.search(r"^    reserve \(step\) +book \(step\)$", said, re.M)
    answer = parked("workflow", "check", "shop:hf", "--json")
    assert answer.code == 1
    assert '"check": "diff"' in answer.out


def test_nothing_can_be_checked(shell: Shell) -> None:
    answer = shell("workflow", "check", "nowhere:hf")
    assert (answer.code, "there is no module 'nowhere'" in answer.err) == (2, True)
