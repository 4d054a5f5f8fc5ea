"""Fan-in: a parent starts 1,000 children, waits for all, and ends; it must be woken once, not by each child."""

from __future__ import annotations

from typing import NamedTuple

from ..draining import NotExactlyOnce, until_archived
from ..figures import Results, at_most
from ..ground import Ground, connected
from ..processes import worker
from ..turns import turns
from .app import PLACE, client
from .questions import FAMILY

CHILDREN = 1_000


class Family(NamedTuple):
    together: float
    """Seconds from the parent's start to its end."""
    after: float
    """Seconds from the end of the last child to that of the parent."""
    wakes: int
    children: int


async def run(ground: Ground, results: Results, full: bool) -> None:
    families = [await _once(ground) for _ in turns(5 if full else 3, ["fan-in"])]
    words = f"fan-in of {CHILDREN:,} children"
    add = results.add
    add("workflows", f"{words}, in all", "s", [one.together for one in families], at_most(2), case="fan_in")
    after = [one.after * 1000 for one in families]
    add("workflows", f"{words}, from the last one's end to the parent's", "ms", after, case="fan_in.after")
    wakes = [float(one.wakes) for one in families]
    add("workflows", f"{words}, how often the parent was woken", "", wakes, at_most(1), case="fan_in.wakes")


async def _once(ground: Ground) -> Family:
    async with ground.database() as url, connected(url) as watch, client(url) as producer:
        with worker(url, "-c", "100", app=PLACE):
            # The first family does not count: connections, prepared statements, caches.
            await producer.start(producer.flows.parent, "small", children=1)
            await until_archived(watch, 2)
            await watch.execute("truncate holdfast.archive")
            await producer.start(producer.flows.parent, "large", children=CHILDREN)
            await until_archived(watch, CHILDREN + 1)
        (row,) = await watch.fetch(FAMILY)
        family = Family(*row)
        if family.children != CHILDREN or family.wakes < 1:
            raise NotExactlyOnce(
                f"a parent of {CHILDREN} children has ended; {family.children} of them have completed, and it was "
                f"woken {family.wakes} times"
            )
        return family
