"""P11: two services, two databases, and each transport between them.

The short form, in every run: relay and receiver are killed once at each of their probes, the broker is killed and
started again in the middle, producers commit late or roll back, and handlers fail. `make boundary` runs the whole
matrix: each probe by itself, killed and stopped, with several workers on both sides.
"""

import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.boundary.places import Place
from tests.boundary.services import Hooks, Produced, check, effects, most_attempts, prepare, produce, wait_settled
from tests.support.brokers import Broker, fresh
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, running_fleet

from holdfast.embedded.cluster import free_port

pytestmark = [pytest.mark.faults, pytest.mark.direct, pytest.mark.timeout(240)]

SENDING = ("claim.before", "claim.after", "relay.before_send", "relay.after_send", "complete.before", "complete.after")
FANNING = ("relay.before_fan_out", "relay.after_fan_out")
LOSING = ("hand_back.before",)
"""Passed when the connection is lost."""
RECEIVING = ("receive.before", "receive.after", "acknowledge.before", "acknowledge.after")
HANDLING = ("run.before", "run.after", "tx.before_commit", "tx.after_commit")
FAILING = ("fail.before", "fail.after")
"""Only where there are two workers: after the death of a process, its supervisor passes these, and dies for good."""
KINDS = ("nats", "redis", "rabbitmq", "webhooks")
BROKERS = KINDS[:3]
BEFORE, AFTER = 20, 1.0
"""Events that have arrived before the broker is killed, and seconds for which events are made after it is back."""


class Between:
    """The two services, and the broker between them."""

    def __init__(self, place: Place, broker: Broker | None, shop: Fleet, billing: Fleet, folder: Path) -> None:
        self.place = place
        self.broker = broker
        self.shop = shop
        self.billing = billing
        self.folder = folder
        self.hooks: Hooks | None = None

    def probes(self, side: str, names: tuple[str, ...], action: str = "kill") -> str:
        return ",".join(f"{name}={action}@{self.folder / f'{side}-{name}'}" for name in names)

    def passed(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.name.startswith(("shop-", "billing-", "hooks-"))}

    def start(self, shop: str = "", billing: str = "", hooks: str = "", workers: int = 1, processes: int = 2) -> None:
        variables = self.place.variables
        if self.place.kind == "webhooks":
            url = self.billing.inbox.url
            self.hooks = Hooks(url, int(self.place.url.split(":")[2].split("/")[0]), self.folder, variables)
            if hooks:
                self.hooks.environment = {**variables, "HOLDFAST_PROBES": hooks}
            self.hooks.start()
        for _ in range(workers):
            self.billing.launch(app="tests.boundary.billing:hf", probes=billing,
                                environment=variables, processes=processes, lease=3)  # fmt: skip
            self.shop.launch(app="tests.boundary.shop:hf", probes=shop, environment=variables,
                             processes=processes, lease=3)  # fmt: skip


@pytest.fixture
def ordered() -> bool:
    """Is the route?"""
    return True


@pytest.fixture
def between(
    request: pytest.FixtureRequest, kind: str, ordered: bool, migrated_url: str, second_url: str, tmp_path: Path
) -> Iterator[Between]:
    broker: Broker | None = None if kind == "webhooks" else request.getfixturevalue(f"{kind}_server")
    url = broker.url if broker is not None else f"http://127.0.0.1:{free_port()}/"
    place = Place(kind, url, fresh(kind), ordered)
    with ExitStack() as stack:
        (tmp_path / "shop").mkdir()
        (tmp_path / "billing").mkdir()
        (tmp_path / "probes").mkdir()
        shop = stack.enter_context(running_fleet(migrated_url, tmp_path / "shop"))
        billing = stack.enter_context(running_fleet(second_url, tmp_path / "billing"))
        place.prepare()
        prepare(place, shop, billing)
        it = Between(place, broker, shop, billing, tmp_path / "probes")
        yield it
        if it.hooks is not None:
            it.hooks.end()


def produced_meanwhile(it: Between, seed: int = 0) -> Produced:
    """Events that were made while the broker was killed and started again, and before and after that."""
    back = threading.Event()
    seen: list[int] = []

    def restart(broker: Broker) -> None:
        try:
            wait_until(lambda: effects(it.billing) >= BEFORE, 60)
            broker.kill()
            seen.append(effects(it.billing))
            time.sleep(0.5)
            broker.start()
            time.sleep(AFTER)
        finally:
            back.set()

    if it.broker is None:
        back.set()
    thread = threading.Thread(target=restart, args=(it.broker,)) if it.broker is not None else None
    if thread is not None:
        thread.start()
    produced = produce(it.shop.inbox.url, 40, back, seed)
    if thread is not None:
        thread.join()
    wait_settled(produced, it.shop, it.billing)
    if it.broker is not None:
        assert BEFORE <= seen[0] < effects(it.billing), "the broker was not killed in the middle"
    return produced


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_dies_each_committed_event_has_one_effect_in_order(between: Between, kind: str) -> None:
    sending = SENDING + (FANNING if kind == "webhooks" else LOSING)
    receiving = HANDLING + (() if kind == "webhooks" else RECEIVING)
    hooks = RECEIVING[:2] if kind == "webhooks" else ()
    between.start(
        between.probes("shop", sending),
        between.probes("billing", receiving),
        between.probes("hooks", hooks),
    )
    produced = produced_meanwhile(between)
    check(produced, between.shop, between.billing)
    wanted = {f"{side}-{name}" for side, names in (("shop", sending), ("billing", receiving), ("hooks", hooks))
              for name in names}  # fmt: skip
    assert wanted <= between.passed(), f"not killed at {wanted - between.passed()}"


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False])
@pytest.mark.parametrize("kind", BROKERS)
def test_without_order_an_outage_costs_no_attempt_and_each_event_has_one_effect(
    between: Between, kind: str, ordered: bool
) -> None:
    between.start(billing=between.probes("billing", RECEIVING))
    check(produced_meanwhile(between), between.shop, between.billing, ordered=False)
    assert most_attempts(between.shop) == 1


MATRIX_CASES: list[Any] = [
    pytest.param(kind, side, name, action, id=f"{kind}-{side}-{name}-{action}")
    for kind in KINDS
    for side, names in (
        ("shop", SENDING + (FANNING if kind == "webhooks" else LOSING)),
        ("hooks" if kind == "webhooks" else "billing", RECEIVING[:2] if kind == "webhooks" else RECEIVING),
        ("billing", HANDLING + FAILING),
    )
    for name in names
    for action in ("kill", "stop")
    if not (side == "hooks" and action == "stop")  # nothing watches a web server but its service manager
]


if os.environ.get("HOLDFAST_BOUNDARY") == "all":

    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "side", "name", "action"), MATRIX_CASES)
    def test_the_matrix(between: Between, kind: str, side: str, name: str, action: str) -> None:
        """Two workers of two processes on each side; one of them dies or stands still at this probe."""
        armed = {side: between.probes(side, (name,), action)}
        between.start(armed.get("shop", ""), armed.get("billing", ""), armed.get("hooks", ""), workers=2)
        produced = produced_meanwhile(between, seed=zlib.crc32(f"{kind} {side} {name}".encode()))
        check(produced, between.shop, between.billing)
        assert f"{side}-{name}" in between.passed()
