"""What the log says about occurrences."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..errors import Contended, Unreachable
from ..model.job import Claim, Holding
from ..model.occurrences import Subscriber, Swept
from ..model.outcome import AttemptFailed, Outcome
from ..model.report import Report

worker_log = logging.getLogger("holdfast.worker")
keeper_log = logging.getLogger("holdfast.keeper")
housekeeping_log = logging.getLogger("holdfast.housekeeping")


class LogLines(Subscriber):
    def failed(self, claim: Claim, failure: AttemptFailed) -> None:
        words = failure.last_error()
        worker_log.info("%s %s attempt %s failed: %r", claim.kind, claim.id, claim.attempt, words)

    def ended(self, endings: Sequence[tuple[Claim, Outcome]], report: Report[Claim]) -> None:
        for claim, error in report.dead:
            words = error.partition("\n")[0][:200]
            worker_log.warning(
                "%s %s is a dead letter after attempt %s: %s", claim.kind, claim.id, claim.attempt, words
            )

    def ending_lost(self, claim: Claim) -> None:
        worker_log.warning(
            "LeaseLost: %s %s generation %s; its ending was not written", claim.kind, claim.id, claim.generation
        )

    def lease_lost(self, held: Holding) -> None:
        keeper_log.warning("worker %s lost the lease of %s, generation %s", held.worker, held.id, held.generation)

    def claim_failed(self, error: Exception, failures: int) -> None:
        if not isinstance(error, (Unreachable, Contended)):
            worker_log.error("the claim failed; trying again", exc_info=error)
        elif failures == 1:
            worker_log.warning("claim: %s; trying again", error)

    def swept(self, rows: Sequence[Swept]) -> None:
        for row in rows:
            housekeeping_log.warning(
                "swept %s: worker %s lost generation %s, now %s", row.id, row.worker, row.generation, row.status
            )

    def session_ended(self, pid: int, name: str) -> None:
        housekeeping_log.warning("ended session %s (%s), whose lease ran out inside a transaction", pid, name)

    def called_dead(self, worker: str, silence: float) -> None:
        housekeeping_log.warning("worker %s was silent for %s s and is called dead", worker, silence)
