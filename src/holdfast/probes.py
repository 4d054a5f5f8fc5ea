"""Named points in the code where a crash matters. They cost nothing in production; the fault tests arm them.

`HOLDFAST_PROBES="claim.after=kill@/tmp/marker,complete.before=stop"` arms probes of a process and of its children.
Actions: `kill` (SIGKILL to this process), `stop` (SIGSTOP), `raise`. With `@PATH`, the action happens once: in the
process that creates the file. With `NAME#3`, it happens when a process comes there for the third time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
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
        "step.before",  # a step of a workflow is about to be called; everything before it is recorded
        "step.after",  # it has returned, and nothing is recorded of it
        "record.before",
        "record.after",  # steps are committed, nothing is known of it here
        "park.before",
        "park.after",  # parked instances and ends of workflows are committed, nothing is known of it here
        "relay.before_send",  # the events are loaded, nothing is sent
        "relay.before_fan_out",
        "relay.after_fan_out",  # the deliveries to each destination are committed, nothing is known of it here
        "relay.after_send",  # their fate is known, nothing is written
        "receive.before",  # a message is here and verified, nothing is written
        "receive.after",  # its job is committed, the sender or the broker does not know it
        "acknowledge.before",
        "acknowledge.after",  # the broker has been told, or a message to it is on its way
    }
)


class ProbeRaised(Exception):
    """Raised by the action `raise`."""


def _parse(text: str) -> dict[str, tuple[int, str, str]]:
    armed: dict[str, tuple[int, str, str]] = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        name, _, time = name.partition("#")
        action, _, marker = action.partition("@")
        if name not in NAMES or action not in {"kill", "stop", "raise"} or not (time or "1").isdigit():
            raise ValueError(
                f"HOLDFAST_PROBES: expected NAME[#TIME]=kill|stop|raise[@PATH] with a known name, got {item!r}"
            )
        armed[name] = (int(time or 0), action, marker)
    return armed


_armed = _parse(os.environ.get("HOLDFAST_PROBES", ""))
_times: Counter[str] = Counter()


def _first_here(marker: str) -> bool:
    try:
        Path(marker).open("x").close()
    except FileExistsError:
        return False
    return True


def _act(name: str) -> None:
    if name not in _armed:
        return
    time, action, marker = _armed[name]
    _times[name] += 1
    if time and _times[name] != time:
        return
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
