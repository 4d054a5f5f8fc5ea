"""The view, as values."""

import io
from collections import deque

import pytest

from holdfast.demo.scene import Scene, Screen, WorkerSeen, draw, screen_for, sparkline


def busy() -> Scene:
    scene = Scene(server="PostgreSQL 18.6, embedded", seconds=12.3, total=30, completed=123_456, due=98_765, kills=12)
    scene.workers = [WorkerSeen(f"worker {n}", 1234567, "running", 55, 3) for n in (1, 2, 3)]
    scene.rates.extend(float(n) for n in range(40))
    for n in range(20):
        scene.tell(f"killed worker {n % 3 + 1} in the middle of send_receipt 0a1b2c (30 rows held)")
    return scene


@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) < width for line in draw(busy(), width))


def test_nothing_is_cut_at_eighty_columns() -> None:
    assert not [line for line in draw(busy(), 80) if line.endswith("…")]


def test_its_height_does_not_change() -> None:
    empty = busy()
    empty.events.clear()
    assert len(draw(busy(), 80)) == len(draw(empty, 80))


def test_a_sparkline_spans_its_bars() -> None:
    assert sparkline(deque([0.0, 5.0, 10.0]), 20) == "▁▅█"
    assert sparkline(deque(), 20) == ""


def test_without_a_terminal_there_are_lines_and_each_event_once() -> None:
    stream = io.StringIO()
    screen = Screen(stream, live=False)
    scene = busy()
    screen.show(scene)
    first = stream.getvalue()
    screen.show(scene)
    assert first.count("killed worker") == 9
    assert stream.getvalue().count("killed worker") == 9
    assert "\x1b" not in stream.getvalue()


def test_with_json_only_a_terminal_sees_anything() -> None:
    stream = io.StringIO()
    screen = screen_for(stream, as_json=True)
    screen.announce(Scene(), "starting")
    screen.show(busy())
    screen.close()
    assert stream.getvalue() == ""
