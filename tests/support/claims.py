"""Claimed rows, as a worker has them."""

from uuid import uuid4

from holdfast.model.job import Claim
from holdfast.worker.leases.ledger import Ledger, now


def claim(ledger: Ledger) -> Claim:
    """One that the ledger holds."""
    id = uuid4()
    slot = ledger.hold(id, 1, now())
    return Claim("w", id, 1, 1, 1, 5, "flow", 1, "{}", "default", "k", None, None, slot=slot)
