"""From occurrences to notes."""

from uuid import uuid4

from holdfast.errors import Contended, Unreachable
from holdfast.journal.notes import Note, Notes
from holdfast.journal.recorder import Recorder
from holdfast.model.availability import Availability
from holdfast.model.job import Hold
from holdfast.model.occurrences import Occurrences, Part, Swept
from holdfast.model.report import Report
from tests.journal.test_notes import Clock


class Watched:
    def __init__(self) -> None:
        self.clock = Clock()
        self.notes = Notes(self.clock)
        self.occurrences = Occurrences(Recorder(self.notes))
        self.parts = {part: Availability(part, self.occurrences) for part in Part}

    def fail(self, part: Part, error: Exception | None = None) -> None:
        self.clock.now += 0.1
        self.parts[part].failed(error or Unreachable("refused"))

    def succeed(self, part: Part) -> None:
        self.clock.now += 0.1
        self.parts[part].succeeded()

    def taken(self) -> list[Note]:
        return self.notes.take(everything=True)


def test_an_outage_is_one_note_for_all_parts_from_the_first_failure_to_the_first_answer() -> None:
    watched = Watched()
    began = watched.clock.now + 0.1
    for part in (Part.WAKE_UPS, Part.LEASES, Part.HOUSEKEEPING):
        watched.fail(part)
    for part in (Part.WAKE_UPS, Part.LEASES, Part.HOUSEKEEPING):
        watched.fail(part)
    watched.succeed(Part.LEASES)
    back = watched.clock.now
    assert watched.taken() == []
    watched.succeed(Part.WAKE_UPS)
    watched.succeed(Part.HOUSEKEEPING)
    (note,) = watched.taken()
    assert (note.what, note.at, note.until, note.count) == ("database.away", began, back, 1)


def test_a_lost_connection_is_no_outage_nor_is_a_lock_or_a_server_that_refuses_only_us() -> None:
    watched = Watched()
    watched.fail(Part.LEASES)
    watched.succeed(Part.LEASES)  # the next call was answered
    for error in (Contended("deadlock"), Unreachable("permission denied", cut_off=True), ValueError("bug")):
        for _ in range(3):
            watched.fail(Part.CLAIM, error)
        watched.succeed(Part.CLAIM)
    assert watched.taken() == []


def test_a_late_notice_of_an_old_connection_does_not_lengthen_the_outage() -> None:
    watched = Watched()
    watched.fail(Part.WAKE_UPS)
    watched.fail(Part.WAKE_UPS)
    watched.succeed(Part.WAKE_UPS)
    back = watched.clock.now
    watched.clock.now += 30
    watched.fail(Part.HOUSEKEEPING)  # its connection was lost long ago
    watched.succeed(Part.HOUSEKEEPING)
    (note,) = watched.taken()
    assert note.until == back


def test_how_many_workers_saw_the_outage() -> None:
    watched = Watched()
    for number in range(3):
        watched.occurrences.process_ready(number, f"w{number}", False)
    watched.occurrences.process_ended(0, "w0", False)
    watched.taken()
    watched.fail(Part.LEASES)
    watched.fail(Part.LEASES)
    watched.succeed(Part.LEASES)
    assert watched.taken()[0].count == 2


def test_what_became_of_the_rows_of_a_dead_worker() -> None:
    watched = Watched()
    hold = Hold("w1", uuid4(), 1)
    watched.occurrences.process_died(7, "w1", "signal SIGKILL", 1, 3)
    watched.occurrences.recovered("w1", Report(retried=1, dead=[(hold, "WorkerDied: …")]))
    watched.occurrences.swept([Swept(uuid4(), "w2", 1, status) for status in ("pending", "pending", "dead_letter")])
    died, recovered, swept = watched.taken()
    assert (died.subject, died.details) == ("w1", {"how": "signal SIGKILL", "held": 3, "running": 1})
    assert (recovered.count, recovered.details) == (2, {"retried": 1, "dead": 1})
    assert (swept.subject, swept.count, swept.details) == ("w2", 3, {"retried": 2, "dead": 1})


def test_isolation_processes_come_and_go_unnoticed_unless_they_die() -> None:
    watched = Watched()
    watched.occurrences.process_ready(1, "alone", True)
    watched.occurrences.process_ended(1, "alone", True)
    assert watched.taken() == []
    watched.occurrences.process_died(2, "", "exit code 3", 0, 0)
    assert "process 2" in watched.taken()[0].subject
