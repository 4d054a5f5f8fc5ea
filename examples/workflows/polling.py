"""Ask another service for a month. Between two questions, nothing runs: the instance is a row that waits."""

from holdfast import Flow, Holdfast, Snooze

hf = Holdfast()


@hf.workflow
async def invoice(flow: Flow, invoice_id: int) -> str:
    """A loop with a sleep. Each round is recorded, so this suits loops of up to some hundred rounds."""
    for day in range(30):
        if await flow.step("ask", is_paid, invoice_id):
            return f"paid after {day} days"
        await flow.sleep("until tomorrow", "1d")
    return "overdue"


async def is_paid(invoice_id: int) -> bool:
    asked.append(invoice_id)
    return invoice_id in paid


@hf.workflow
async def parcel(flow: Flow, number: str) -> str:
    """A step that asks every ten minutes. It is one record, however often it asks."""
    place = await flow.step("deliver", where_is, number)
    return f"delivered to {place}"


async def where_is(number: str) -> str | Snooze:
    asked.append(number)
    return places.get(number) or Snooze("10m")


paid: set[int] = set()
places: dict[str, str] = {}
asked: list[int | str] = []
"""Stand for the bank and the carrier."""
