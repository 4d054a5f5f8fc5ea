"""The application of no-op jobs, in a worker that does not count what its attempts do: to see what counting costs."""

from holdfast.model.occurrences import Subscriber
from holdfast.worker import engine
from holdfast.worker.numbers.board import Board

from .app import hf

__all__ = ["hf"]


class _Nothing(Subscriber):
    def __init__(self, board: Board) -> None: ...

    def publish(self) -> None: ...


engine.Counting = _Nothing  # type: ignore[assignment, attr-defined]
