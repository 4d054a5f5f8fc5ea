"""The verdict, and the summary in words."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

Numbers = Mapping[str, float]

WIDTH = 79
MUST_BE_ZERO = ("lost", "duplicate_effects", "rolled_back_jobs_found")


def exit_code(numbers: Numbers) -> int:
    """Return 1 if anything was lost, duplicated or left by a rolled-back transaction, or if nothing was recovered."""
    return 1 if any(numbers[name] for name in MUST_BE_ZERO) or not numbers["recovered_after_kill"] else 0


def summary(numbers: Numbers, details: Numbers) -> str:
    """Return the results, each with what it means."""
    d = {name: f"{value:,.0f}" for name, value in details.items()}
    kills = "1 kill" if details["kills"] == 1 else f"{d['kills']} kills"
    rows = [
        ("enqueued", f"jobs of {d['orders']} orders. Each order committed in one transaction with its jobs."
                     f" {d['repeated']} requests were sent twice, with the same idempotency keys, and added no jobs"),
        ("completed", f"with their effects: {d['rows_written']} rows written through ctx.tx, {d['letters']} receipts"
                      f" sent. Beside them, a schedule fired {d['slots']} slots"),
        ("dead_letter", f"kept with every error. {d['poison']} jobs were made to fail: they always raise an error or"
                        " crash their process"),
        ("recovered_after_kill", f"of the {d['held_when_killed']} jobs that workers held when they were killed"
                                 f" ({kills} with SIGKILL, supervisor and process at once). Other workers ran them"
                                 f"{_others(details)}"),
        ("lost", f"committed jobs that did not end, or ended without their effect{_by_hand(details)}"),
        ("duplicate_effects", "effects that happened twice, effects of failed attempts, second jobs with the same"
                              " idempotency key"),
        ("rolled_back_jobs_found", f"jobs, orders or effects of the {d['rolled_back']} transactions that were rolled"
                                   " back"),
        ("jobs_per_second", f"jobs completed, over {details['seconds']:.1f} s, including the kills and the drain"),
    ]  # fmt: skip
    said = [_row(numbers[name], WORDS[name], text) for name, text in rows]
    complaints = _complaints(numbers, details)
    verdict = "\n  ".join(["Guarantees did NOT hold:", *complaints]) if complaints else "All guarantees held."
    return "\n".join([HEAD, "", *said, "", _window(int(details["absorbed_repeats"])), "", verdict])


def _others(details: Numbers) -> str:
    """What became of the jobs that were held and not recovered."""
    became = {
        "held_completed": "had completed just before the kill",
        "held_dead": "had no attempts left",
        "held_by_hand": "ended by hand",
    }
    said = [f"{details[name]:,.0f} {words}" for name, words in became.items() if details[name]]
    return f". Of the others, {', '.join(said)}" if said else ""


HEAD = """\
Results, counted by a separate script that shares no code with Holdfast, from
the producer's log, the orders and the recorded effects:"""

WORDS = {
    "enqueued": "enqueued",
    "completed": "completed",
    "dead_letter": "dead letters",
    "recovered_after_kill": "recovered",
    "lost": "lost",
    "duplicate_effects": "duplicates",
    "rolled_back_jobs_found": "leaked",
    "jobs_per_second": "per second",
}


def _row(value: float, word: str, text: str) -> str:
    first = f"{value:>8,.0f}  {word:<14}"
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def _by_hand(details: Numbers) -> str:
    if not details["by_hand"]:
        return ""
    were, are = ("was", "is") if details["by_hand"] == 1 else ("were", "are")
    return f"; {details['by_hand']:,.0f} that {were} cancelled or discarded by hand {are} not counted"


def _window(absorbed: int) -> str:
    """Say what is not guaranteed."""
    text = (
        "One window remains: if a worker dies after an effect outside the database and before the effect's marker is"
        " stored, the effect is repeated."
    )
    if absorbed == 0:
        text += " This did not happen in this run."
    else:
        often = "once" if absorbed == 1 else f"{absorbed} times"
        text += (
            f" This happened {often} in this run. The mail service recognised the second request by its idempotency key"
            " and sent one letter."
        )
    return textwrap.fill(text, WIDTH)


def _complaints(numbers: Numbers, details: Numbers) -> list[str]:
    said = []
    if numbers["lost"]:
        parts = {
            "lost_missing": "are not in the database",
            "lost_without_effect": "completed without their effect",
            "lost_unfinished": "did not end before the drain timed out",
            "lost_order": "belong to committed orders that are not in the database",
            "slots_missing": "of the schedule are missing, each for one slot",
        }
        said += [f"{details[name]:,.0f} jobs {words}" for name, words in parts.items() if details[name]]
    if numbers["duplicate_effects"]:
        said.append(
            f"{numbers['duplicate_effects']:,.0f} duplicates ({details['second_jobs']:,.0f} second jobs,"
            f" {details['slots_twice']:,.0f} second effects of a slot,"
            f" {details['effects_after_marker']:,.0f} effects repeated after their marker)"
        )
    if numbers["rolled_back_jobs_found"]:
        said.append(
            f"{numbers['rolled_back_jobs_found']:,.0f} jobs, orders or effects of rolled-back transactions exist"
        )
    if not numbers["recovered_after_kill"]:
        said.append("no job of a killed worker was recovered")
    return said


def further(command: str) -> str:
    """Return what to try next, with the command as it can be typed."""
    rows = {
        "demo": "run this demo there, in a schema that it drops",
        "migrate": "create the schema for your application",
        "worker yourapp:hf": "run your jobs",
        "stats": "see the queues; also: job list, dead list",
    }
    return "\n".join([
        "The demo has removed everything that it created. To use your own server:",
        "  export HOLDFAST_DATABASE_URL=postgresql://user@host/database",
        *(f"  {f'{command} {words}':<{len(command) + 20}} {what}" for words, what in rows.items()),
    ])  # fmt: skip
