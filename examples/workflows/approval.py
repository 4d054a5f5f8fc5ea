"""A purchase that somebody must approve. After two days without an answer it goes to the next person."""

import msgspec

from holdfast import Flow, Holdfast

hf = Holdfast()


class Answer(msgspec.Struct):
    approved: bool
    by: str


@hf.workflow
async def purchase(flow: Flow, item: str, approvers: list[str]) -> str:
    for approver in approvers:
        await flow.step("ask", ask, approver, item)
        answer = await flow.wait("answer", Answer, timeout="2d")
        if answer is not None:
            return f"{'approved' if answer.approved else 'rejected'} by {answer.by}"
    return "nobody answered"


async def ask(approver: str, item: str) -> None:
    asked.append(f"{approver}: may we buy {item}?")


async def answer(purchase_id: str, approved: bool, by: str) -> None:
    """What a web page calls. A second click changes nothing: it has the same signal id."""
    await hf.signal(purchase_id, "answer", Answer(approved, by), signal_id=f"answer of {by}")


asked: list[str] = []
"""Stands for mail to approvers."""
