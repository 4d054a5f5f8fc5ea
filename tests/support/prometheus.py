"""A real Prometheus server on a free port of the loopback, which scrapes what a test tells it."""

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from tests.support.brokers import Broker, program

PACKAGE = "Debian: apt install prometheus"


def promtool() -> str:
    """The path of promtool; without it, the test that asks is skipped."""
    return program("promtool", PACKAGE)


class Prometheus(Broker):
    def __init__(self, target: str, paths: Sequence[str]) -> None:
        self._program = program("prometheus", PACKAGE)
        super().__init__("prometheus")
        jobs = [{"job_name": path, "metrics_path": path, "static_configs": [{"targets": [target]}]} for path in paths]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        (self.folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return [
            self._program, f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.port}",
        ]  # fmt: skip

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that this expression has now."""
        data = urllib.parse.urlencode({"query": expression}).encode()
        with urllib.request.urlopen(f"{self.url}/api/v1/query", data, timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return list(found["data"]["result"])
