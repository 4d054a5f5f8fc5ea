"""The ledger: the rows that a worker process holds, in memory that its keeper can read without its help.

    header   the keeper's last beat and its last recall; when the worker's loop last ran, its id, whether suspects
             wait, its counters
    posts    for each claim loop: whether it sleeps, when it last began to poll and polls next, its room, and the flags
             that producers see
    slots    stage, notice, id, generation, when the lease was last renewed, when the process must be killed
    board    what the worker has counted, by queue and kind (numbers/board.py)

The worker writes everything except `notice`, `renewed` and the keeper's part of the header. A slot's stage is written
last when it is filled and first when it is freed, and the keeper reads it before and after the rest, so it notices a
torn read. Times are of CLOCK_BOOTTIME: it goes on while the machine is suspended, and is the same in every process.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from ..numbers import board

FREE, HELD, RUNNING, ENDED = range(4)
"""The stages of a row that a worker holds."""
NONE, LOST, CANCELLED, RECALLED = range(4)
"""The keeper's notices about a row."""
BUSY, AWAKE, ASLEEP, DEAF = range(4)
"""The states of a worker: it has no room; it polls again in a moment; it has room and sleeps; the same, but its last
wake-up found nothing, and it reacts to the next one a little later."""
CALLED_FOR, AWAKE_HERE = 1, 2
"""What producers see: a worker here sleeps and wants to be woken; a worker here is awake, so none needs to be woken."""

LATE: Final = 100_000_000
"""Nanoseconds after the time of its next poll after which a worker counts as busy: something blocks its loop."""

CAPACITY: Final = 4096
POSTS: Final = 64
"""Most claim loops of one worker: one for its jobs, and one for each route."""
_AT_POSTS: Final = 512
_POST: Final = 32
_HEADER: Final = _AT_POSTS + POSTS * _POST
_SLOT: Final = 56
_AT_BOARD: Final = _HEADER + CAPACITY * _SLOT
_SIZE: Final = _AT_BOARD + board.SIZE

_BODY = struct.Struct("<16sqqq")  # id, generation, renewed, kill_at
_NUMBER = struct.Struct("<q")
_AT_BODY: Final = 8
_AT_RENEWED: Final = _AT_BODY + 24
_AT_KILL: Final = _AT_BODY + 32

_AT_BEAT: Final = 0
_AT_NAME: Final = 16
_NAME: Final = 128
_AT_PULSE: Final = 160
_AT_RECALL: Final = 168
_AT_SUSPECTS: Final = 176
_AT_COUNTERS: Final = 256

_AT_STATE: Final = 0
_AT_FLAGS: Final = 1
_AT_LOOK: Final = 8
_AT_ROOM: Final = 16
_AT_POLLED: Final = 24
"""Of a post."""

COUNTERS: Final = (
    "claimed", "started", "completed", "failed", "retried", "dead", "snoozed", "handed_back", "lease_lost",
    "late_completions", "timeouts", "cancelled", "rescans", "reconnects", "running", "ready",
    "expired", "away", "ring",
)  # fmt: skip

try:
    _CLOCK = time.CLOCK_BOOTTIME
except AttributeError:  # pragma: no cover - not on Linux
    _CLOCK = time.CLOCK_MONOTONIC


def now() -> int:
    """Nanoseconds; goes on while the machine is suspended."""
    return time.clock_gettime_ns(_CLOCK)


class Held(msgspec.Struct, frozen=True):
    """One row that the worker holds, as the keeper sees it."""

    slot: int
    stage: int
    notice: int
    id: UUID
    generation: int
    renewed: int
    kill_at: int

    @property
    def recalled(self) -> bool:
        """It has not started and has been handed back; the worker does not know yet."""
        return self.stage == HELD and self.notice == RECALLED


class Post:
    """One claim loop of a worker, as it says so itself, and what producers see of its queues."""

    def __init__(self, map: mmap.mmap, base: int) -> None:
        self._map = map
        self._base = base

    # The worker's side

    def set_state(self, state: int, look_in: float = 0.0, room: int = 0) -> None:
        """Set the state, the seconds until the next poll, and for how many rows there is room."""
        _NUMBER.pack_into(self._map, self._base + _AT_LOOK, now() + int(look_in * 1e9))
        _NUMBER.pack_into(self._map, self._base + _AT_ROOM, room)
        self._map[self._base + _AT_STATE] = state

    def note_poll(self) -> None:
        """Note that a poll begins."""
        _NUMBER.pack_into(self._map, self._base + _AT_POLLED, now())

    @property
    def reachable(self) -> bool:
        """Would a producer wake this host now?"""
        return self._map[self._base + _AT_FLAGS] == CALLED_FOR

    @property
    def awake_here(self) -> bool:
        """Do producers wake no worker, because one of this host is awake?"""
        return bool(self._map[self._base + _AT_FLAGS] & AWAKE_HERE)

    # The keeper's side

    def set_flags(self, flags: int) -> None:
        self._map[self._base + _AT_FLAGS] = flags

    def polled_since(self, at: int) -> bool:
        """Has a poll begun at this time or later?"""
        return bool(_NUMBER.unpack_from(self._map, self._base + _AT_POLLED)[0] >= at)

    @property
    def room_left(self) -> int:
        """For how many rows the worker had room when it last set its state."""
        return int(_NUMBER.unpack_from(self._map, self._base + _AT_ROOM)[0])

    @property
    def state(self) -> int:
        """Its state; BUSY before its first poll, and while its next poll is late: something blocks its loop."""
        state = self._map[self._base + _AT_STATE]
        late = state != BUSY and now() - _NUMBER.unpack_from(self._map, self._base + _AT_LOOK)[0] > LATE
        return BUSY if late else state


class Ledger:
    """Both sides of the ledger. `fd` is passed to the worker process; None: shared within one process."""

    def __init__(self, fd: int | None = None) -> None:
        self._map = mmap.mmap(fd, _SIZE) if fd is not None else mmap.mmap(-1, _SIZE)
        self._free = list(range(CAPACITY - 1, -1, -1))
        self.reserved = 0
        """For rows that claims in progress may bring, at any post, and for those that are about to be taken."""
        self.board = board.Board(self._map, _AT_BOARD)
        """What the worker has counted."""

    @staticmethod
    def new_file() -> int:
        """An anonymous file for a ledger that two processes share."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("holdfast-ledger")
        else:  # pragma: no cover - not on Linux
            import tempfile  # only where there is no memory file

            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, _SIZE)
        return fd

    def close(self) -> None:
        self._map.close()

    def post(self, number: int = 0) -> Post:
        """A claim loop; number 0 is that of the jobs."""
        return Post(self._map, _AT_POSTS + number * _POST)

    # The worker's side

    @property
    def room(self) -> int:
        """How many more rows fit, beside those for which a place is reserved."""
        return len(self._free) - self.reserved

    def hold(self, id: UUID, generation: int, at: int) -> int:
        """Add a claimed row; `at` is when its claim was sent."""
        slot = self._free.pop()
        base = _HEADER + slot * _SLOT
        _BODY.pack_into(self._map, base + _AT_BODY, id.bytes, generation, at, 0)
        self._map[base + 1] = NONE
        self._map[base] = HELD
        return slot

    def start(self, slot: int, kill_at: int) -> None:
        base = _HEADER + slot * _SLOT
        _NUMBER.pack_into(self._map, base + _AT_KILL, kill_at)
        self._map[base] = RUNNING

    def end(self, slot: int) -> None:
        """The handler has returned; its ending is not written yet, so the lease is still kept."""
        base = _HEADER + slot * _SLOT
        self._map[base] = ENDED

    def put_back(self, slot: int) -> None:
        """Mark it as not started: it has expired, or is about to be handed back, by this worker or its supervisor."""
        self._map[_HEADER + slot * _SLOT] = HELD

    def free(self, slot: int) -> None:
        self._map[_HEADER + slot * _SLOT] = FREE
        self._free.append(slot)

    def free_all(self, slots: list[int]) -> None:
        held = self._map
        for slot in slots:
            held[_HEADER + slot * _SLOT] = FREE
        self._free += slots

    def notice_of(self, slot: int) -> int:
        return self._map[_HEADER + slot * _SLOT + 1]

    def expired(self, slot: int, lease: float, at: int) -> bool:
        """Was this lease, at this time, not renewed for longer than it lasts?"""
        renewed: int = _NUMBER.unpack_from(self._map, _HEADER + slot * _SLOT + _AT_RENEWED)[0]
        return at - renewed > lease * 1e9

    def set_name(self, name: str) -> None:
        data = name.encode()[: _NAME - 1]
        self._map[_AT_NAME : _AT_NAME + _NAME] = data.ljust(_NAME, b"\0")

    def pulse(self) -> None:
        """Note that the event loop runs."""
        _NUMBER.pack_into(self._map, _AT_PULSE, now())

    def recalled(self, at: int) -> bool:
        """Has the keeper handed back the rows of a claim that was sent then, as far as they had not started?"""
        return bool(at <= _NUMBER.unpack_from(self._map, _AT_RECALL)[0])

    def set_suspects(self, wait: bool) -> None:
        """Do suspects wait that this worker does not take? The supervisor resets this when it has acted."""
        self._map[_AT_SUSPECTS] = wait

    def count(self, name: str, value: int) -> None:
        _NUMBER.pack_into(self._map, _AT_COUNTERS + 8 * COUNTERS.index(name), value)

    @property
    def beat(self) -> int:
        """When the keeper last beat; 0 before its first beat."""
        return int(_NUMBER.unpack_from(self._map, _AT_BEAT)[0])

    # The keeper's side

    def set_beat(self, at: int) -> None:
        _NUMBER.pack_into(self._map, _AT_BEAT, at)

    def recall(self) -> None:
        """Note a recall: rows that were claimed before now do not start any more."""
        _NUMBER.pack_into(self._map, _AT_RECALL, now())

    @property
    def silence(self) -> float:
        """Seconds since the worker's loop last ran; 0 before its first run."""
        pulse: int = _NUMBER.unpack_from(self._map, _AT_PULSE)[0]
        return (now() - pulse) / 1e9 if pulse else 0.0

    @property
    def name(self) -> str:
        return self._map[_AT_NAME : _AT_NAME + _NAME].rstrip(b"\0").decode()

    @property
    def suspects(self) -> bool:
        """Do suspects wait that this worker does not take?"""
        return bool(self._map[_AT_SUSPECTS])

    def counters(self) -> dict[str, int]:
        return {name: int(_NUMBER.unpack_from(self._map, _AT_COUNTERS + 8 * n)[0]) for n, name in enumerate(COUNTERS)}

    def held(self) -> Iterator[Held]:
        """Every row that the worker holds."""
        for slot in range(CAPACITY):
            base = _HEADER + slot * _SLOT
            stage = self._map[base]
            if stage == FREE:
                continue
            id, generation, renewed, kill_at = _BODY.unpack_from(self._map, base + _AT_BODY)
            if self._map[base] != FREE and self._same(base, id, generation):
                yield Held(slot, stage, self._map[base + 1], UUID(bytes=id), generation, renewed, kill_at)

    def renewed(self, row: Held, at: int) -> None:
        base = _HEADER + row.slot * _SLOT
        if self._same(base, row.id.bytes, row.generation):
            _NUMBER.pack_into(self._map, base + _AT_RENEWED, at)

    def notice(self, row: Held, notice: int) -> bool:
        """Leave a notice for the worker, if it still holds this row. A loss is never taken back."""
        base = _HEADER + row.slot * _SLOT
        if not self._same(base, row.id.bytes, row.generation) or self._map[base] == FREE:
            return False
        if self._map[base + 1] in (LOST, notice):
            return False
        self._map[base + 1] = notice
        return True

    def _same(self, base: int, id: bytes, generation: int) -> bool:
        again: tuple[bytes, int, int, int] = _BODY.unpack_from(self._map, base + _AT_BODY)
        return again[0] == id and again[1] == generation
