"""Named points in the code where a crash matters. They cost nothing in production; the fault tests arm them.

`HOLDFAST_PROBES="claim.after=kill@/tmp/marker,complete.before=stop"` arms probes of a process and of its children.
Actions: `kill` (SIGKILL to this process), `stop` (SIGSTOP), `raise`. With `@PATH`, the action happens once: in the
process that creates the file.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

NAMES = frozenset(
    {
        "claim.before",
        "claim.after",  # the claim is committed, but this process does not know the result
        "run.before",  # the row is held and marked as started; the handler is not called yet
        "run.after",  # the handler has returned
        "once.before",  # the effect of a once() block has happened; its marker is not written
        "once.after",
        "tx.before_commit",
        "tx.after_commit",
        "complete.before",
        "complete.after",
        "fail.before",
        "fail.after",
        "renew.before",
        "hand_back.before",
        "sweep.before",
        "enqueue.before_commit",
        "drain.before",
        "schedule.before",  # a slot is due, nothing is written
        "schedule.after",  # its job is committed, nothing is known of it here
    }
)


class ProbeRaised(Exception):
    """Raised by the action `raise`."""


def _parse(text: str) -> dict[str, tuple[str, str]]:
    armed: dict[str, tuple[str, str]] = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        action, _, marker = action.partition("@")
        if name not in NAMES or action not in {"kill", "stop", "raise"}:
            raise ValueError(f"HOLDFAST_PROBES: expected NAME=kill|stop|raise[@PATH] with a known name, got {item!r}")
        armed[name] = (action, marker)
    return armed


_armed = _parse(os.environ.get("HOLDFAST_PROBES", ""))


def _first_here(marker: str) -> bool:
    try:
        Path(marker).open("x").close()
    except FileExistsError:
        return False
    return True


def _act(name: str) -> None:
    if name not in _armed:
        return
    action, marker = _armed[name]
    if marker and not _first_here(marker):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        raise ProbeRaised(name)


def _pass(name: str) -> None:
    """Do nothing: no probe is armed."""


probe = _act if _armed else _pass
