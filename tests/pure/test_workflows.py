"""Declaring workflows: what cannot run later is refused when the workflow is registered."""

import inspect
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from holdfast import ConfigurationError, Context, Flow, Holdfast, InvalidInput, InvalidPayload, Workflow
from holdfast.definitions import Runs
from holdfast.model.terms import Stored
from holdfast.workflows import Instance


@pytest.fixture
def hf() -> Holdfast:
    return Holdfast("postgresql://nobody@nowhere/none")


async def checkout(flow: Flow, order_id: int, note: str = "") -> str:
    """Checks out."""
    return note


def test_a_workflow_is_a_task_that_is_started(hf: Holdfast) -> None:
    workflow = hf.workflow(queue="orders", version=3, max_attempts=2, undo_on_failure=True)(checkout)
    assert hf.tasks == {"checkout": workflow}
    definition = workflow._definition
    assert (definition.runs, definition.queue, definition.version) == (Runs.AS_FLOW, "orders", 3)
    assert (definition.max_attempts, definition.undo_on_failure) == (2, True)
    assert definition.arguments.names == ("order_id", "note")
    assert workflow.__doc__ == "Checks out."
    assert repr(workflow) == "<Workflow checkout>"
    with pytest.raises(ConfigurationError, match=r"started, not called: await checkout\.start"):
        workflow(None, 1)
    assert inspect.iscoroutinefunction(checkout)


def test_the_id_is_the_idempotency_key(hf: Holdfast) -> None:
    workflow = hf.workflow(checkout)
    job = workflow.options(id="checkout:1", priority=0).job(order_id=1)
    assert (job.idempotency_key, job._terms.priority) == ("checkout:1", 0)
    assert workflow.job(1).idempotency_key is None
    with pytest.raises(InvalidInput, match=r"^id: of an instance is text, such as 'checkout:9182', got a UUID"):
        workflow.options(id=uuid4())  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInput, match=r"^idempotency_key: is not an option of options\(\) of a workflow; it takes id,"
    ):
        workflow.options(idempotency_key="a")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match=r"on\(\) needs one; for options alone, write workflow\.options"):
        workflow.on(None, id="a")
    with pytest.raises(InvalidPayload, match="colour"):
        workflow.job(order_id=1, colour="red")  # type: ignore[call-arg]


def test_ids_of_many_are_checked(hf: Holdfast) -> None:
    workflow = hf.workflow(checkout)
    with pytest.raises(InvalidInput, match=r"^id: one id cannot stand for many instances"):
        workflow.options(id="a").start_many_sync([{"order_id": 1}])
    with pytest.raises(InvalidInput, match=r"^ids: expected one for each of 1 instances, got 2"):
        workflow.start_many_sync([{"order_id": 1}], ids=["a", "b"])
    hf.close_sync()


def takes_no_flow(order_id: int) -> None: ...
async def takes_a_context(ctx: Context) -> None: ...
def is_not_async(flow: Flow) -> None: ...


@pytest.mark.parametrize("function", [takes_no_flow, takes_a_context, is_not_async], ids=lambda each: each.__name__)
def test_code_that_cannot_be_a_workflow(hf: Holdfast, function: Any) -> None:
    with pytest.raises(ConfigurationError, match="workflow"):
        hf.workflow(function)


def test_options_are_checked(hf: Holdfast) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^timeout: is not an option of a workflow; expected one of name, queue"
    ):
        hf.workflow(timeout="1h")(checkout)  # type: ignore[call-overload]
    hf.workflow(checkout)
    with pytest.raises(ConfigurationError, match="There is already a task or workflow 'checkout'"):
        hf.workflow(checkout)
    with pytest.raises(ConfigurationError, match=r"keep the version they began with.*@checkout\.version\(1\)"):
        hf.tasks["checkout"].upcast(from_version=1)


def test_earlier_versions_are_kept(hf: Holdfast) -> None:
    workflow = hf.workflow(version=3, undo_on_failure=True)(checkout)

    @workflow.version(1)
    async def first(flow: Flow, order: str) -> str:
        return order

    with pytest.raises(
        ConfigurationError, match=r"has the code of version 1, but not of 2; add it, @checkout\.version"
    ):
        hf._surrounded()
    workflow.version(2)(checkout)
    assert hf._surrounded()["checkout"].oldest == 1
    assert workflow._definition.at(1).function is first
    assert workflow._definition.at(1).arguments.names == ("order",)
    assert workflow._definition.at(1).undo_on_failure
    assert workflow._definition.at(3) is workflow._definition
    with pytest.raises(ConfigurationError, match="already has the code of version 2"):
        workflow.version(2)(checkout)
    with pytest.raises(ConfigurationError, match="is at version 3; expected an earlier one, got 3"):
        workflow.version(3)(checkout)
    with pytest.raises(ConfigurationError, match="version: expected a whole number"):
        workflow.version(0)(checkout)


def test_middleware_is_not_run_around_a_replay(hf: Holdfast) -> None:
    @hf.middleware
    def around(ctx: Context, call_next: Any) -> None:
        call_next()

    workflow = hf.workflow(checkout)
    assert hf._surrounded()["checkout"] is workflow._definition


class Receipt(msgspec.Struct):
    total: int


def test_results_have_the_type_of_the_annotation(hf: Holdfast) -> None:
    @hf.workflow
    async def total(flow: Flow) -> Receipt:
        return Receipt(1)

    job = total.options(id="a").job()
    instance: Instance[Receipt] = Instance(total, job, Stored(job.id, True))
    assert (instance.id, instance.job_id, instance.existed) == ("a", job.id, True)
    assert instance._typed({"total": 2}) == Receipt(2)
    assert repr(instance) == "<Instance a existed>"
    with pytest.raises(InvalidPayload, match="does not fit the annotation of version 1"):
        instance._typed({"total": "x"})
    unnamed = total.job()
    assert Instance(total, unnamed, Stored(unnamed.id)).id == str(unnamed.id)
    assert isinstance(total, Workflow)


def test_signals_are_checked_before_anything_is_sent(hf: Holdfast) -> None:
    for arguments, problem in [
        ((1, "shipped"), "^instance: expected the id given at its start"),
        (("a", ""), "^name: expected 1 to"),
        (("a", "shipped", object()), "^payload"),
        (("a\0", "shipped"), "^instance: contains a NUL"),
    ]:
        with pytest.raises(InvalidInput, match=problem):
            hf.signal_sync(*arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^signal_id"):
        hf.signal_sync(UUID(int=1), "shipped", signal_id="")
    hf.close_sync()
