"""The second service: for each order that was paid, one row. Nothing but Holdfast keeps a second one away."""

import os
from typing import Any

from tests.boundary.places import VARIABLE, Place
from tests.support.hooks import SECRET

from holdfast import Backoff, Event, Holdfast, TxContext

EFFECTS = "create table effects (seq bigserial, event text, key text, n int)"

hf = Holdfast()


@hf.on_event("order.paid", source="shop", ordered=True, max_attempts=100, retry=Backoff(base=0.05, cap=0.2))
async def paid(ctx: TxContext, event: Event[dict[str, Any]]) -> None:
    if ctx.attempt == 1 and event.data["n"] % 10 == 3:
        raise ConnectionError("as a service that it calls may be away")
    await ctx.tx.execute(
        "insert into effects (event, key, n) values ($1, $2, $3)", event.id, event.key, event.data["n"]
    )


if VARIABLE in os.environ and (consumer := Place.here().consumer()) is not None:
    hf.consume(consumer, source="shop")

app = hf.receiver(source="shop", secrets=[SECRET])
