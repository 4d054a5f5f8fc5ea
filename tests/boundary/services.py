"""Two services with a database each, what lies between them, and what must hold whatever happens."""

import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
from tests.boundary.billing import EFFECTS
from tests.boundary.places import Place
from tests.support.hooks import SECRET
from tests.support.pooler import direct
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, Fleet

KEYS = 5
OPEN_LONG = 7
"""The number of the transaction of each key that is open for one to two seconds."""


@dataclass(slots=True)
class Produced:
    """What the producers know."""

    committed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of each key, in the order of their commits."""
    rolled_back: set[tuple[str, int]] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return sum(len(numbers) for numbers in self.committed.values())


def produce(url: str, each: int, enough: threading.Event, seed: int = 0) -> Produced:
    """A producer for each key: its transactions commit, commit late, or roll back, one after the other. So many, and on
    until it is enough. One of each key is open for so long that the claim floor does not wait for it."""
    produced = Produced()
    lock = threading.Lock()

    def one_key(key: str) -> None:
        dice = random.Random(f"{seed} {key}")
        with psycopg.connect(direct(url)) as connection:
            for n in count():
                if n >= each and enough.is_set():
                    return
                fate = dice.random() if n != OPEN_LONG else 1.0
                id = connection.execute(
                    "select holdfast.publish('order.paid', jsonb_build_object('n', %s::int), key => %s)",
                    (n, key),
                ).fetchone()
                assert id is not None
                if n >= each:
                    time.sleep(dice.uniform(0.1, 0.3))
                late = (1.0, 2.0) if n == OPEN_LONG else (0.05, 0.2) if 0.2 <= fate < 0.4 else (0.0, 0.03)
                time.sleep(dice.uniform(*late))
                if fate < 0.2:
                    connection.rollback()
                    with lock:
                        produced.rolled_back.add((key, n))
                else:
                    connection.commit()
                    with lock:
                        produced.committed[key].append(n)
                        produced.ids.add(str(id[0]))

    threads = [threading.Thread(target=one_key, args=(f"order:{k}",)) for k in range(KEYS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return produced


@dataclass(slots=True)
class Hooks:
    """The web server of the second service, started again whenever it dies, as a service manager would."""

    url: str
    port: int
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    ending: bool = False
    starts: int = 0
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._keep_running, daemon=True)
        self.thread.start()

    def _keep_running(self) -> None:
        command = [
            sys.executable, "-m", "uvicorn", "tests.boundary.billing:app", "--host", "127.0.0.1", "--port",
            str(self.port), "--log-level", "warning",
        ]  # fmt: skip
        variables = {**os.environ, "HOLDFAST_DATABASE_URL": self.url, **self.environment}
        while not self.ending:
            self.starts += 1
            with (self.folder / f"hooks-{self.starts}.log").open("wb") as log:
                self.process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
                self.process.wait()
            time.sleep(0.2)

    def end(self) -> None:
        self.ending = True
        while self.thread is not None and self.thread.is_alive():  # it may be about to start the next one
            if self.process is not None:
                self.process.kill()
            self.thread.join(0.1)


def check(produced: Produced, shop: Fleet, billing: Fleet, ordered: bool = True) -> None:
    """The delivered set is the committed set, each event has one effect, and the order of each key holds."""
    rows = billing.inbox.rows("select event, key, n from effects order by seq")
    assert len(rows) == len({row["event"] for row in rows}), "an event has two effects"
    assert {row["event"] for row in rows} == produced.ids, "the delivered set is not the committed set"
    assert not {(row["key"], row["n"]) for row in rows} & produced.rolled_back, "a ghost of a rolled-back transaction"
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["key"]].append(row["n"])
    if not ordered:
        found = {key: sorted(numbers) for key, numbers in found.items()}
    assert found == produced.committed, "the order of a key was lost"
    dead = shop.inbox.rows("select * from holdfast.outbox where status = 'dead_letter'")
    assert dead == []
    assert billing.inbox.one("select count(*) from holdfast.inbox") == 0


def settled(produced: Produced, shop: Fleet, billing: Fleet) -> bool:
    return bool(
        billing.inbox.one("select count(*) from effects") >= produced.total
        and shop.inbox.one("select count(*) from holdfast.inbox") == 0
        and billing.inbox.one("select count(*) from holdfast.inbox") == 0
    )


def wait_settled(produced: Produced, shop: Fleet, billing: Fleet, seconds: float = 90) -> None:
    wait_until(lambda: settled(produced, shop, billing), seconds)
    time.sleep(0.5)  # for what may come twice


def effects(billing: Fleet) -> int:
    return int(billing.inbox.one("select count(*) from effects"))


def most_attempts(shop: Fleet) -> int:
    """Of a delivery."""
    return int(shop.inbox.one("select max(attempts) from holdfast.outbox"))


def prepare(place: Place, shop: Fleet, billing: Fleet) -> None:
    billing.inbox.rows(EFFECTS)
    shop.inbox.rows(
        "insert into holdfast.routes (name, types, queue, ordered, max_attempts)"
        " values (%s, '{order.*}', %s, %s, 100)",
        *(("webhooks", "out.webhooks") if place.kind == "webhooks" else ("bus", "out.bus")), place.ordered,
    )  # fmt: skip
    if place.kind == "webhooks":
        shop.inbox.rows(
            "insert into holdfast.endpoints (url, types, ordered, secrets) values (%s, '{*}', true,"
            " jsonb_build_array(jsonb_build_object('secret', %s::text, 'created_at', now(), 'expires_at', null)))",
            place.url, SECRET,
        )  # fmt: skip
