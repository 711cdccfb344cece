"""Runs Prometheus on loopback and sends it the queries that Grafana would send."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boards


def need(tool: str, install: str) -> str:
    path = shutil.which(tool)
    if not path:
        raise SystemExit(f"tests/dashboards/run: {tool} not found; {install}")
    return path


def promtool() -> str:
    return need(os.environ.get("PROMTOOL", "promtool"), "apt-get install prometheus")


def listening_port(process: subprocess.Popen[bytes]) -> int:
    """Waits until a process that was started with port 0 listens, and returns its TCP port."""
    links = Path(f"/proc/{process.pid}/fd")

    def port() -> int:
        if process.poll() is not None:
            raise SystemExit(f"tests/dashboards/run: {process.args} exited")
        inodes = {str(link.readlink()).removeprefix("socket:[").rstrip("]") for link in links.iterdir()}
        rows = (row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
        ports = (int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes)
        return next(ports, 0)

    return wait_for("a program to listen", port)


def exporter_binary() -> str:
    """The binary in EXPORTER, else target/debug, built if necessary."""
    if chosen := os.environ.get("EXPORTER"):
        return chosen
    built = boards.ROOT / "target" / "debug" / "azure-scheduled-events-exporter"
    if not built.exists():
        subprocess.run([need("cargo", "see https://rustup.rs"), "build", "--locked"], cwd=boards.ROOT, check=True)
    return str(built)


def wait_for(what: str, ready: Any, limit: float = 120.0) -> Any:
    """Polls `ready` until its result is true, for at most `limit` seconds; the default allows for a slow machine."""
    end = time.monotonic() + limit
    while True:
        try:
            if result := ready():
                return result
        except (OSError, KeyError):
            pass
        if time.monotonic() > end:
            raise SystemExit(f"tests/dashboards/run: timed out after {limit:.0f} s waiting for {what}")
        time.sleep(0.2)


class Api:
    def __init__(self, url: str, headers: dict[str, str] | None = None):
        self.url = url.rstrip("/")
        self.headers = headers or {}

    def get(self, path: str, **params: Any) -> Any:
        body = urllib.parse.urlencode(params).encode() or None  # GET if there are no parameters
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.url}/api/v1/{path}", data=body, headers=self.headers), timeout=120
            ) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            body = error.read().decode()
            if not body.startswith("{"):  # while it starts, Prometheus responds with plain text
                raise OSError(f"{error}: {body}") from error
            raise RuntimeError(json.loads(body).get("error", body)) from error

    def instant(self, expr: str, at: float) -> list[Any]:
        data = self.get("query", query=expr, time=f"{at:.3f}")
        return data["result"] if data["resultType"] == "vector" else [data["result"]]

    def query_panel(
        self, query: boards.Query, variables: dict[str, str], span: int, at: float, scrape: int = boards.SCRAPE_INTERVAL
    ) -> list[Any]:
        """Runs one panel query as Grafana sends it and returns the series."""
        begin, end = (at, at + query.ahead) if query.ahead else (at - span, at)
        step = boards.step(query, query.ahead or span, scrape)
        expr = boards.interpolate(query.expr, variables, query.ahead or span, step, scrape)
        if query.instant:
            return self.instant(expr, end)
        aligned = [t - t % step for t in (begin, end)]
        return self.get("query_range", query=expr, start=f"{aligned[0]:.3f}", end=f"{aligned[1]:.3f}", step=step)[
            "result"
        ]


@contextmanager
def serving(directory: Path, scrape: str, data: Path | None = None) -> Iterator[Api]:
    """Prometheus with the given configuration, on the data in `data` or `directory`/data."""
    binary = need(os.environ.get("PROMETHEUS", "prometheus"), "apt-get install prometheus")
    config = directory / "prometheus.yml"
    config.write_text(scrape, encoding="utf-8")
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={data or directory / 'data'}",
                "--storage.tsdb.retention.time=100d",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        api = Api(f"http://127.0.0.1:{listening_port(process)}")
        wait_for("Prometheus to be ready", lambda: api.instant("vector(1)", time.time()))
        yield api
    finally:
        process.terminate()
        process.wait(60)
