"""The verdict, and the summary in words."""

from __future__ import annotations

from collections.abc import Mapping

Numbers = Mapping[str, float]

MUST_BE_ZERO = ("lost", "duplicate_effects", "rolled_back_jobs_found")


def exit_code(numbers: Numbers) -> int:
    """1 if anything was lost, doubled or found of a rolled-back transaction, or if nothing was recovered."""
    return 1 if any(numbers[name] for name in MUST_BE_ZERO) or not numbers["recovered_after_kill"] else 0


def summary(numbers: Numbers, details: Numbers) -> str:
    def n(name: str) -> str:
        value = numbers.get(name, details.get(name, 0))
        return f"{value:,.0f}"

    held = exit_code(numbers) == 0
    lines = [
        "Recounted from the producer's log, the orders and the witnessed effects,",
        "by a script that shares no code with the library:",
        "",
        f"{n('enqueued'):>9}  enqueued   by {n('orders')} committed orders, each in one transaction with its jobs;",
        f"{'':>9}             {n('repeated')} repeated requests added none (idempotency keys)",
        f"{n('completed'):>9}  completed  each with its effect: {n('rows_written')} rows written through ctx.tx,",
        f"{'':>9}             {n('letters')} receipts posted",
        f"{n('dead_letter'):>9}  dead letters, of {n('poison')} poisonous jobs: they fail every time, or kill their process",
        f"{n('recovered_after_kill'):>9}  recovered  of {n('held_when_killed')} held by workers at {n('kills')} kills"
        " (SIGKILL, supervisor too):",
        f"{'':>9}             ended later under another generation, nobody lent a hand",
        f"{n('lost'):>9}  lost       every accepted job has ended",
        f"{n('duplicate_effects'):>9}  doubled    no effect twice, none of a failed attempt, no second job for one key",
        f"{n('rolled_back_jobs_found'):>9}  ghosts     no job, order or effect of {n('rolled_back')} rolled-back transactions",
        f"{numbers['jobs_per_second']:>9,.0f}  jobs per second, completed ÷ {details['seconds']:.1f} s, kills included",
        "",
        _window(int(details["absorbed_repeats"])),
        "",
        "Everything that was promised held." if held else "NOT everything that was promised held:",
    ]
    if not held:
        lines += [f"  {line}" for line in _complaints(numbers, details)]
    return "\n".join(lines)


def _window(absorbed: int) -> str:
    """The one thing that is not promised, said aloud."""
    seen = {0: "It was not hit this time.", 1: "It was hit once; the post office saw one request twice and"}.get(
        absorbed, f"It was hit {absorbed} times; the post office saw these requests twice and"
    )
    known = "" if absorbed == 0 else "\nknew them by their idempotency key, so that nobody got two letters."
    return (
        "An effect outside the database can be repeated in one window: killed after the\n"
        f"effect, before its marker. {seen}{known}"
    )


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
To look further: this database is gone now. On a server of your own,
  export HOLDFAST_DATABASE_URL=postgresql://user@host/database
  holdfast demo          runs there, in a schema of its own that is dropped at the end
  holdfast migrate       makes the schema for your application
  holdfast worker app:hf, then: holdfast stats, holdfast job list, holdfast dead list"""
