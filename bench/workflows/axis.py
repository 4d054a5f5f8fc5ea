"""The axis: instances per second beside the peers, then what only ours is measured for."""

from __future__ import annotations

import holdfast

from ..figures import Results
from ..ground import Ground
from . import rates


async def run(ground: Ground, results: Results, full: bool) -> None:
    if not hasattr(holdfast, "Flow"):
        # The peers' figures are still useful; ours count as missed.
        await rates.run(ground, results, full, None)
        results.failures["workflows"] = "this Holdfast has no workflows; only the peers were measured"
        return
    # Not before: what they import declares workflows.
    from . import fan_in, lone, ours, replay, sleepers

    await rates.run(ground, results, full, ours.once)
    for part in (lone, sleepers, replay, fan_in):
        await part.run(ground, results, full)
