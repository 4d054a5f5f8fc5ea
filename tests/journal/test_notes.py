"""Notes in memory: bounded, and nothing is lost without being counted."""

from holdfast.journal.notes import A_MINUTE, BURST, Note, Notes


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def deaths(notes: Notes, count: int, clock: Clock, apart: float = 0.0) -> None:
    for number in range(count):
        clock.now += apart
        notes.add(Note("worker.died", f"w{number}", clock.now, details={"held": 2, "how": "signal SIGKILL"}))


def test_a_process_writes_so_many_at_once_and_folds_the_rest_into_one() -> None:
    clock = Clock()
    notes = Notes(clock)
    deaths(notes, 500, clock)
    first = notes.take()
    assert len(first) == BURST
    assert [note.subject for note in first] == [f"w{number}" for number in range(BURST)]
    assert notes.take() == [], "nothing more is allowed in this moment"
    assert len(notes) == 500 - BURST
    clock.now += 60 / A_MINUTE
    (folded,) = notes.take()
    assert (folded.what, folded.subject, folded.count, folded.shared) == ("worker.died", "", 500 - BURST, True)
    assert folded.details == {"held": 2 * (500 - BURST), "folded": True}
    assert len(notes) == 0


def test_a_crash_loop_writes_a_few_rows_a_minute_for_a_whole_day() -> None:
    clock = Clock()
    notes = Notes(clock)
    rows = told = 0
    for _ in range(24 * 60):
        deaths(notes, 12, clock, apart=5)
        taken = notes.take()
        rows += len(taken)
        told += sum(note.count for note in taken)
    told += sum(note.count for note in notes.take(everything=True))
    assert told == 24 * 60 * 12, "each of them is counted"
    assert rows <= BURST + 24 * 60 * A_MINUTE + 1


def test_what_happens_often_is_added_up_while_it_waits() -> None:
    clock = Clock()
    notes = Notes(clock)
    for number in range(100):
        clock.now += 0.01
        notes.add(Note("jobs.swept", "w1", clock.now, count=3, details={"retried": 2, "dead": 1}, shared=True))
        notes.add(Note("jobs.swept", f"other {number % 2}", clock.now, details={"retried": 1}, shared=True))
    mine, *others = notes.take()
    assert (mine.count, mine.details, mine.until) == (300, {"retried": 200, "dead": 100}, clock.now)
    assert [(note.subject, note.count) for note in others] == [("other 0", 50), ("other 1", 50)]


def test_what_could_not_be_written_waits_with_its_time() -> None:
    clock = Clock()
    notes = Notes(clock)
    notes.add(Note("leases.lost", "w1", 1.0, shared=True))
    notes.add(Note("worker.died", "w1", 2.0))
    taken = notes.take()
    notes.add(Note("leases.lost", "w1", 3.0, shared=True))
    notes.put_back(taken)
    again = notes.take()
    assert [(note.what, note.at, note.until, note.count) for note in again] == [
        ("leases.lost", 1.0, 3.0, 2),
        ("worker.died", 2.0, None, 1),
    ]
