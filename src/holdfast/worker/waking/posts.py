"""A post of all workers of a host: the claim loops that serve the same queues. Its flags, and whom to wake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..leases import ledger as marks

if TYPE_CHECKING:
    from ..leases.keeper import Kept

NOBODY_SLEPT, SOMEBODY_AWAKE = 0.1, 0.05
"""Seconds for which every look must have seen this before a flag changes."""
AFTERWARDS = 0.003
"""Seconds after a wake-up before the listener does anything else: the worker may need its CPU core."""
ANSWER = 0.1
"""Seconds within which a worker that was woken begins to poll. Otherwise something blocks its loop, or its process is
about to stop: on a busy machine, a SIGSTOP takes effect only tens of milliseconds later."""

Flag = tuple[str, str]
"""A state, asleep or awake, and a queue."""


class Post:
    def __init__(self, number: int, queues: Sequence[str], workers: Sequence[Kept], look: Callable[[], None]) -> None:
        """`look`: look at the ledgers now."""
        self._number = number
        self.queues = list(queues)
        self._workers = workers
        self._look = look
        self.wakes = 0
        self._asleep, self._awake = _Settled(NOBODY_SLEPT), _Settled(SOMEBODY_AWAKE)
        self._jobs = 0
        """Jobs that were announced, and for which no worker was woken yet."""
        self._called: list[Kept] = []
        """Workers that were woken in the last moment."""
        self._spare = 0
        """For how many more jobs these have room."""
        self._owing: dict[Kept, int] = {}
        """Workers that were woken and have not polled since; with the time of the wake-up."""
        self._stalled: dict[Kept, int] = {}
        """Workers that were woken and did not poll in time, or whose process was stopped then. Others are woken in
        their place until they poll again."""
        self._relied_on: set[Kept] = set()
        """Workers that were awake when one was last seen awake."""
        self._turn = 0

    # The flags

    def watch(self, told: bool) -> bool:
        """Look at the ledgers; `told`: a worker has said that its own has changed. True if nothing is changing."""
        self._check_answers()
        seen = {kept: self._state(kept) for kept in self._workers}
        states = set(seen.values())
        if marks.AWAKE in states:
            self._relied_on = {kept for kept, state in seen.items() if state == marks.AWAKE}
        now = time.monotonic()
        asleep, awake = bool(states & {marks.ASLEEP, marks.DEAF}), marks.AWAKE in states
        settled = [
            self._asleep.see(asleep, now, at_once=asleep),
            self._awake.see(awake, now, at_once=told and not awake),
        ]
        return all(settled) and states <= {marks.ASLEEP} and not self._owing

    @property
    def wanted(self) -> set[Flag]:
        """The flags that should be up."""
        states = [state for state, up in (("asleep", self._asleep.value), ("awake", self._awake.value)) if up]
        return {(state, queue) for state in states for queue in self.queues}

    def flags(self, up: set[Flag]) -> int:
        """The flags as the ledgers show them."""
        called_for = all(("asleep", queue) in up for queue in self.queues)
        awake_here = any(("awake", queue) in up for queue in self.queues)
        return marks.CALLED_FOR * called_for | marks.AWAKE_HERE * awake_here

    @property
    def let_down(self) -> bool:
        """Does a worker that producers relied on, because it was awake, not poll any more?

        One that has fallen asleep polls once more when producers can see that. One that has no room, is stopped or has
        died does not.
        """
        return any(
            kept not in self._workers or self._state(kept) not in (marks.ASLEEP, marks.DEAF) for kept in self._relied_on
        )

    def show(self, flags: int) -> None:
        for kept in self._workers:
            kept.ledger.post(self._number).set_flags(flags)

    # Waking

    def hear_of(self, jobs: int) -> None:
        """Note new jobs. All of one read are handled together: they came before the polls that follow."""
        if not self._jobs:
            asyncio.get_running_loop().call_soon(self._call)
        self._jobs += jobs

    def _call(self) -> None:
        """Wake as many workers as have room for the new jobs; those woken a moment ago may have room left."""
        jobs, self._jobs = self._jobs, 0
        if not jobs:
            return
        if self._called and jobs <= self._spare:
            self._spare -= jobs
            self._order(self._called[-1])  # once more: its poll may have begun before this
            return
        earlier = list(self._called)
        left = jobs - self._spare
        while left > 0 and (kept := self._next_sleeper()) is not None:
            left -= max(1, kept.ledger.post(self._number).room_left)
            self._wake(kept)
        self._spare = max(0, -left)
        if left > 0:
            for kept in earlier:  # the same: nobody else is left, and it may have found nothing and sleep again
                if kept in self._workers and self._state(kept) != marks.BUSY:
                    self._order(kept)

    def _next_sleeper(self) -> Kept | None:
        """The next worker that sleeps; if none was woken yet, also one that is awake, which then polls once more."""
        self._turn += 1
        turn = self._turn % max(1, len(self._workers))
        passed = {*self._called, *self._stalled}
        workers = [kept for kept in (*self._workers[turn:], *self._workers[:turn]) if kept not in passed]
        for states in ({marks.ASLEEP}, {marks.DEAF}, {marks.AWAKE} if not self._called else set()):
            for kept in workers:
                if self._state(kept) in states:
                    return kept
        return None

    def _wake(self, kept: Kept) -> None:
        self._order(kept)
        self.wakes += 1
        if not self._called:
            asyncio.get_running_loop().call_later(AFTERWARDS, self._check_woken)
        self._called.append(kept)

    def _order(self, kept: Kept) -> None:
        """Tell a worker to poll. Its time for that runs from the first wake-up that it has not answered."""
        at = marks.now()
        kept.wake(self._number)  # first: the job waits for it, and not for what is noted about it
        since = self._owing.get(kept)
        if since is None or self._polled_since(kept, since):
            self._owing[kept] = at

    def _check_woken(self) -> None:
        """A moment after a wake-up: wake others in place of workers whose process is stopped."""
        self._look()
        stopped = [kept for kept in self._called if kept.stopped()]
        self._called.clear()
        self._spare = 0
        self._replace(stopped)

    def _check_answers(self) -> None:
        """Wake others in place of workers that were woken and do not poll. Those that poll again are woken once more:
        wake-ups have passed them over."""
        self._owing = {kept: at for kept, at in self._owing.items() if not self._polled_since(kept, at)}
        limit = marks.now() - int(ANSWER * 1e9)
        self._replace([kept for kept, at in self._owing.items() if at < limit or kept not in self._workers])
        for kept, at in list(self._stalled.items()):
            if kept not in self._workers:
                del self._stalled[kept]
            elif not kept.stopped() and self._polled_since(kept, at):
                del self._stalled[kept]
                kept.wake(self._number)

    def _replace(self, stalled: Sequence[Kept]) -> None:
        for kept in stalled:
            self._stalled[kept] = self._owing.pop(kept, marks.now())
        if stalled:
            self.hear_of(len(stalled))

    def _polled_since(self, kept: Kept, at: int) -> bool:
        return kept in self._workers and kept.ledger.post(self._number).polled_since(at)

    def _state(self, kept: Kept) -> int:
        return kept.ledger.post(self._number).state


class _Settled:
    """A value that changes when all looks within `seconds` agreed on it, or at once if asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.value = False
        self._since: float | None = None

    def see(self, value: bool, now: float, at_once: bool) -> bool:
        """Note what is seen now; return whether it is the current value."""
        if value == self.value:
            self._since = None
        elif at_once or (self._since is not None and now - self._since >= self._seconds):
            self.value, self._since = value, None
        elif self._since is None:
            self._since = now
        return value == self.value
