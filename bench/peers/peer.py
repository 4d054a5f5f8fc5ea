"""A peer: where its files are, how many jobs a repeat takes, and what its database says when all is done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class LeftOut(Exception):
    """Why a peer has no figures, in one sentence."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    """Of its folder here, of its environment, and in the figures."""
    jobs: int
    """In one drain, of the full size: a few seconds of work."""
    bulk: int
    """In one bulk enqueue, of either size: a second or so."""
    python: tuple[int, int] = (3, 11)
    """The oldest that it runs on; of no meaning for those in Node."""
    hands: int = 0
    """Of each worker in a fleet: the fewest with which it does well. 0: paces and bursts are not measured of it."""

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def driver(self) -> Path:
        return next(path for path in (self.folder / "driver.py", self.folder / "driver.mjs") if path.exists())

    @property
    def node(self) -> bool:
        return self.driver.suffix == ".mjs"

    @property
    def pins(self) -> Path:
        """The versions, in one place."""
        return self.folder / ("package.json" if self.node else "requirements.txt")

    @property
    def package(self) -> str:
        """What is installed, with its version: the first of the pins."""
        if self.node:
            name, version = next(iter(json.loads(self.pins.read_text())["dependencies"].items()))
            return f"{name} {version}"
        lines = [line for line in self.pins.read_text().splitlines() if line and not line.startswith("#")]
        return lines[0].replace("==", " ")

    def sql(self, name: str) -> str:
        """`unfinished`: whether a job is not completed yet. `completed`: how many are, and the times of three quarters.

        The latter two are null for a peer that keeps none. `steps`, of those with workflows: how many are recorded.
        """
        return (self.folder / f"{name}.sql").read_text()


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("pgboss", 100_000, 20_000, hands=2),
        Peer("graphile", 100_000, 20_000, hands=1),
        Peer("pgqueuer", 80_000, 20_000, hands=2),
        Peer("awa", 24_000, 20_000),
        Peer("oban", 16_000, 4_000, python=(3, 12)),
        Peer("absurd", 3_000, 1_500),
        Peer("procrastinate", 2_400, 8_000),
        Peer("dbos", 2_400, 500),
    )
}
