"""What can go wrong around a step in a transaction, and is no failure of the step."""

from __future__ import annotations

from ...flow.machine import JournalFailed


class NoTransaction(JournalFailed):
    """No transaction could be started: the step was not called."""


class Deadlocked(JournalFailed):
    """Another transaction waits for what the step has written, and has locked the instance: the step is rolled back."""


class EndedItself(JournalFailed):
    """A step ended its transaction itself: nothing guarded what it wrote."""
