"""A drain of ours: no-op jobs, or instances with no-op steps, that stand ready when the worker starts."""

from __future__ import annotations

from ..app import NOTE
from ..draining import NotExactlyOnce, drain
from ..ground import Ground, connected, fill, settle
from .app import PLACE, client
from .cases import Case
from .questions import STEPS


async def once(ground: Ground, case: Case, jobs: int) -> float:
    """Instances per second, from the first claim to the last completion."""
    async with ground.database() as url, connected(url) as watch:
        if case.steps:
            async with client(url) as producer:
                arguments = ({"number": number, "note": NOTE} for number in range(jobs))
                await producer.start_many(producer.flows.steps[case.steps], arguments)
        else:
            await fill(watch, jobs)
        await watch.execute("analyze")
        await settle(watch)
        app = PLACE if case.steps else "hf"
        drained = await drain(ground, url, watch, jobs, "-c", str(case.flight), app=app, handed_back=True)
        recorded = await watch.fetchval(STEPS)
        if recorded != jobs * case.steps:
            raise NotExactlyOnce(
                f"{jobs} instances of {case.steps} steps have ended, and {recorded} steps are recorded"
            )
        return drained.rate
