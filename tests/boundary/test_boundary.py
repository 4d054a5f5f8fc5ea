"""P11: two services, two databases, and each transport between them.

The short form, in every run: relay and receiver are killed once at each of their probes, the broker is killed and
started again, and producers commit late or roll back. `make boundary` runs the whole matrix: each probe by itself,
killed and stopped, with several workers on both sides.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.boundary.places import Place
from tests.boundary.services import Hooks, check, prepare, produce, wait_settled
from tests.support.brokers import Broker, fresh
from tests.support.workers import Fleet, running_fleet

from holdfast.embedded.cluster import free_port

pytestmark = [pytest.mark.faults, pytest.mark.direct, pytest.mark.timeout(240)]

SENDING = ("claim.before", "claim.after", "relay.before_send", "relay.after_send", "complete.before", "complete.after")
FANNING = ("relay.before_fan_out", "relay.after_fan_out")
RECEIVING = ("receive.before", "receive.after", "acknowledge.before", "acknowledge.after")
HANDLING = ("run.before", "tx.before_commit", "tx.after_commit")
KINDS = ("nats", "redis", "rabbitmq", "webhooks")


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

    def start(self, shop: str = "", billing: str = "", hooks: str = "", workers: int = 1) -> None:
        variables = self.place.variables
        if self.place.kind == "webhooks":
            url = self.billing.inbox.url
            self.hooks = Hooks(url, int(self.place.url.split(":")[2].split("/")[0]), self.folder, variables)
            if hooks:
                self.hooks.environment = {**variables, "HOLDFAST_PROBES": hooks}
            self.hooks.start()
        for _ in range(workers):
            self.billing.launch(app="tests.boundary.billing:hf", probes=billing,
                                environment=variables, processes=workers, lease=3)  # fmt: skip
            self.shop.launch(app="tests.boundary.shop:hf", probes=shop, environment=variables,
                             processes=workers, lease=3)  # fmt: skip


@pytest.fixture
def between(
    request: pytest.FixtureRequest, kind: str, migrated_url: str, second_url: str, tmp_path: Path
) -> Iterator[Between]:
    broker: Broker | None = None if kind == "webhooks" else request.getfixturevalue(f"{kind}_server")
    url = broker.url if broker is not None else f"http://127.0.0.1:{free_port()}/"
    place = Place(kind, url, fresh(kind))
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


def restart_soon(broker: Broker, after: float) -> threading.Thread:
    def restart() -> None:
        time.sleep(after)
        broker.kill()
        time.sleep(0.5)
        broker.start()

    thread = threading.Thread(target=restart)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_dies_each_committed_event_has_one_effect_in_order(between: Between, kind: str) -> None:
    sending = SENDING + (FANNING if kind == "webhooks" else ())
    receiving = HANDLING + (() if kind == "webhooks" else RECEIVING)
    between.start(
        between.probes("shop", sending),
        between.probes("billing", receiving),
        between.probes("hooks", RECEIVING[:2]) if kind == "webhooks" else "",
    )
    restarting = restart_soon(between.broker, 3) if between.broker is not None else None
    produced = produce(between.shop.inbox.url, 40, threading.Event())
    if restarting is not None:
        restarting.join()
    wait_settled(produced, between.shop, between.billing)
    check(produced, between.shop, between.billing)
    wanted = {f"shop-{name}" for name in sending} | {f"billing-{name}" for name in receiving}
    assert wanted <= between.passed(), f"not killed at {wanted - between.passed()}"


MATRIX_CASES: list[Any] = [
    pytest.param(kind, side, name, action, id=f"{kind}-{side}-{name}-{action}")
    for kind in KINDS
    for side, names in (
        ("shop", SENDING + (FANNING if kind == "webhooks" else ())),
        ("hooks" if kind == "webhooks" else "billing", RECEIVING[:2] if kind == "webhooks" else RECEIVING),
        ("billing", HANDLING),
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
        restarting = restart_soon(between.broker, 2) if between.broker is not None else None
        produced = produce(between.shop.inbox.url, 40, threading.Event(), seed=hash((kind, side, name)))
        if restarting is not None:
            restarting.join()
        wait_settled(produced, between.shop, between.billing)
        check(produced, between.shop, between.billing)
        assert f"{side}-{name}" in between.passed()
