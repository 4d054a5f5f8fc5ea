"""The verdict, and the summary in words."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

Numbers = Mapping[str, float]

WIDTH = 79
MUST_BE_ZERO = ("lost", "duplicate_effects", "rolled_back_jobs_found")


def exit_code(numbers: Numbers) -> int:
    """1 if anything was lost, doubled or found of a rolled-back transaction, or if nothing was recovered."""
    return 1 if any(numbers[name] for name in MUST_BE_ZERO) or not numbers["recovered_after_kill"] else 0


def summary(numbers: Numbers, details: Numbers) -> str:
    """What was counted, and what each line proves."""
    d = {name: f"{value:,.0f}" for name, value in details.items()}
    kills = "1 kill" if details["kills"] == 1 else f"{d['kills']} kills"
    rows = [
        ("enqueued", f"jobs of {d['orders']} orders, each committed in one transaction with its jobs. {d['repeated']}"
                     " requests were repeated under the same idempotency keys and added none"),
        ("completed", f"and their effects are there: {d['rows_written']} rows written through ctx.tx, {d['letters']}"
                      " receipts posted"),
        ("dead_letter", f"kept with their errors, not retried for ever: of {d['poison']} poisonous jobs, which always"
                        " fail or take their process down"),
        ("recovered_after_kill", f"of {d['held_when_killed']} that workers held at {kills} (SIGKILL, process"
                                 " and supervisor at once). Others took over, and nobody lent a hand"),
        ("lost", "accepted jobs that did not end, or ended without their effect"),
        ("duplicate_effects", "effects made twice, effects of failed attempts, second jobs for one idempotency key"),
        ("rolled_back_jobs_found", f"jobs, orders or effects of {d['rolled_back']} transactions that were rolled back"),
        ("jobs_per_second", f"completed ÷ {details['seconds']:.1f} s, kills and draining included"),
    ]  # fmt: skip
    said = [_row(numbers[name], WORDS[name], text) for name, text in rows]
    complaints = _complaints(numbers, details)
    verdict = "\n  ".join(["NOT everything held:", *complaints]) if complaints else "Everything that was promised held."
    return "\n".join([HEAD, "", *said, "", _window(int(details["absorbed_repeats"])), "", verdict])


HEAD = """\
Recounted from the producer's log, the orders and the witnessed effects, by a
script that shares no code with the library:"""

WORDS = {
    "enqueued": "enqueued",
    "completed": "completed",
    "dead_letter": "dead letters",
    "recovered_after_kill": "recovered",
    "lost": "lost",
    "duplicate_effects": "doubled",
    "rolled_back_jobs_found": "ghosts",
    "jobs_per_second": "per second",
}


def _row(value: float, word: str, text: str) -> str:
    first = f"{value:>8,.0f}  {word:<13}"
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def _window(absorbed: int) -> str:
    """The one thing that is not promised, said aloud."""
    text = "An effect outside the database can be repeated in one window: killed after the effect, before its marker."
    if absorbed == 0:
        text += " It was not hit this time."
    elif absorbed == 1:
        text += " It was hit once; the post office knew the second request by its idempotency key and sent one letter."
    else:
        text += (
            f" It was hit {absorbed} times; the post office knew the second requests by their idempotency keys and sent"
        )
        text += " one letter each."
    return textwrap.fill(text, WIDTH)


def _complaints(numbers: Numbers, details: Numbers) -> list[str]:
    said = []
    if numbers["lost"]:
        parts = {
            "lost_missing": "not in the database",
            "lost_without_effect": "completed without their effect",
            "lost_unfinished": "not ended when the time to drain was over",
            "lost_order": "of committed orders that are not in the table",
        }
        said += [f"{details[name]:,.0f} jobs {words}" for name, words in parts.items() if details[name]]
    if numbers["duplicate_effects"]:
        said.append(
            f"{numbers['duplicate_effects']:,.0f} doubled ({details['second_jobs']:,.0f} second jobs,"
            f" {details['effects_after_marker']:,.0f} requests after their marker)"
        )
    if numbers["rolled_back_jobs_found"]:
        said.append(f"{numbers['rolled_back_jobs_found']:,.0f} found of rolled-back transactions")
    if not numbers["recovered_after_kill"]:
        said.append("no job was recovered from a killed worker")
    return said


FURTHER = """\
To look further, use a server of your own (what the demo made is gone now):
  export HOLDFAST_DATABASE_URL=postgresql://user@host/database
  holdfast demo      plays there, in a schema of its own that is dropped at the end
  holdfast migrate   makes the schema for your application; then
  holdfast worker yourapp:hf, holdfast stats, holdfast job list, holdfast dead list"""
