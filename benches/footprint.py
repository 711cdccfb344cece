#!/usr/bin/env python3
"""CPU time, memory, binary and scrapes of the exporter, beside node_exporter and a C program, in one run.

    benches/footprint.py                        about eight minutes on an otherwise idle machine
    SECONDS=15 ROUNDS=1 benches/footprint.py    a short run
    EXPORTER=PATH benches/footprint.py          another binary (default: target/release)

All programs run at the same time, and poll the same simulator once a second. The C program (benches/floor.c) does
nothing but poll. node_exporter runs with its time collector alone, and with its default collectors. The exporter runs
without OTLP, and with spans, log records and metrics over HTTP and over HTTPS; this script is the collector. Every 15
seconds each is scraped as by Prometheus 3.

The first rounds have no event. In the others an event is announced every 20 seconds, and is over 15 seconds later.
Memory (VmHWM, VmRSS, RssAnon of /proc/PID/status; 1 MB is 1,000 kB there) is read after them and 2,000 more scrapes. The
time of a scrape is that of a Python client on one connection, 100 ms after the last one, so that each is rendered. CPU
time is /proc/PID/task/*/schedstat. Requires tests/tools/install bench.
"""

from __future__ import annotations

import http.client
import http.server
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPORTER = os.environ.get("EXPORTER", str(ROOT / "target/release/azure-scheduled-events-exporter"))
SECONDS = int(os.environ.get("SECONDS", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SCRAPE_INTERVAL = 15
SCRAPES = 2000
TIMED_SCRAPES = 200
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Accept-Encoding": "gzip",
}


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


@dataclass
class Program:
    name: str
    command: list[str]
    port: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    # CPU seconds per hour without and with events, and seconds of a scrape.
    idle: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    scrapes: list[float] = field(default_factory=list)

    def start(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        self.process = subprocess.Popen(
            self.command, env=inherited | self.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 30
        while self.port:
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                return self.scrape()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"{self.name} does not answer") from None
                time.sleep(0.05)
        return None

    def scrape(self) -> None:
        self.connection.request("GET", "/metrics", headers=HEADERS)
        self.connection.getresponse().read()

    def cpu_seconds(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def status(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))

    def memory(self) -> str:
        peak, resident, anonymous = (self.status(name) / 1000 for name in ("VmHWM", "VmRSS", "RssAnon"))
        return f"{peak:.1f} MB | {resident:.1f} MB ({anonymous:.1f})"


class Collector(http.server.BaseHTTPRequestHandler):
    """Accepts everything: an empty body is the answer of OTLP."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def collector(certificate: tuple[Path, Path] | None) -> str:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"


def certificate(folder: Path) -> tuple[Path, Path]:
    files = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=collector"
    options = "-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    paths = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *options.split(), *paths], check=True, capture_output=True)
    return files


def programs(folder: Path, simulator: int) -> list[Program]:
    floor, node = str(folder / "floor"), shutil.which("prometheus-node-exporter")
    if not node:
        raise SystemExit("prometheus-node-exporter not found; run: tests/tools/install bench")
    compiler = ["cc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", floor, ROOT / "benches" / "floor.c"], check=True)
    files = certificate(folder)
    otlp = {"OTEL_METRICS_EXPORTER": "otlp"}
    exporters = {
        "this exporter": {},
        "OTLP over HTTP": otlp | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector(None)},
        "OTLP over HTTPS": otlp
        | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector(files), "OTEL_EXPORTER_OTLP_CERTIFICATE": str(files[0])},
    }
    found = [Program("floor (C)", [floor, str(simulator)])]
    for number, (name, variables) in enumerate(exporters.items()):
        port, state = free_port(), folder / f"state-{number}"
        flags = [f"--web.listen-address=127.0.0.1:{port}", f"--imds.url=http://127.0.0.1:{simulator}"]
        flags += ["--vm.name=web_0", f"--state.directory={state}", "--log.level=error"]
        # As in the systemd unit, the image and the chart.
        variables |= {"MALLOC_TRIM_THRESHOLD_": "131072"}
        found.append(Program(name, [EXPORTER, *flags], port, variables))
    for name, flags in {"time only": ["--collector.disable-defaults", "--collector.time"], "defaults": []}.items():
        port = free_port()
        listen = f"--web.listen-address=127.0.0.1:{port}"
        found.append(Program(f"node_exporter ({name})", [node, listen, *flags], port))
    return found


def play(simulator: int) -> None:
    """Announces an event of each poller's VM every 20 seconds, during all rounds."""
    count = (ROUNDS * SECONDS + TIMED_SCRAPES) // 20 + 2
    freeze = {"event_type": "Freeze", "resources": ["web_0"], "notice": "10s", "started_for": "5s"}
    events = [{"at": f"{20 * number}s", **freeze} for number in range(count)]
    body = json.dumps({"scenario": {"events": events}}).encode()
    url, headers = f"http://127.0.0.1:{simulator}/simulator/start", {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).close()


def measure(running: list[Program], column: str) -> None:
    for number in range(ROUNDS):
        print(f"{column}, round {number + 1} of {ROUNDS}", file=sys.stderr)
        began, before = time.monotonic(), [one.cpu_seconds() for one in running]
        while (left := began + SECONDS - time.monotonic()) > 0:
            for one in running:
                if one.port:
                    one.scrape()
            time.sleep(min(left, SCRAPE_INTERVAL))
        took = time.monotonic() - began
        for one, cpu in zip(running, before, strict=True):
            getattr(one, column).append((one.cpu_seconds() - cpu) / took * 3600)


def measure_scrapes(running: list[Program]) -> None:
    scraped = [one for one in running if one.port]
    for one in scraped:
        for _ in range(SCRAPES):
            one.scrape()
    for _ in range(TIMED_SCRAPES):
        time.sleep(0.1)
        for one in scraped:
            began = time.perf_counter()
            one.scrape()
            one.scrapes.append(time.perf_counter() - began)


def spread(hours: list[float]) -> str:
    return f"{statistics.median(hours):.2f} s ({min(hours):.2f} to {max(hours):.2f})"


def table(running: list[Program]) -> None:
    columns = "binary | CPU time per hour, no event | with events | scrape, median | peak memory"
    print(f"| | {columns} | resident (anonymous) | threads |\n|{'---|' * 8}")
    for one in running:
        scrapes = f"{statistics.median(one.scrapes) * 1000:.1f} ms" if one.scrapes else "–"
        size = Path(one.command[0]).stat().st_size / 1e6
        cells = [one.name, f"{size:.1f} MB", spread(one.idle), spread(one.busy), scrapes, one.memory()]
        print(f"| {' | '.join(cells)} | {one.status('Threads'):.0f} |")
    version = subprocess.run([EXPORTER, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    load = os.getloadavg()[0]
    print(f"\n{version}; {ROUNDS} rounds of {SECONDS} s; {os.cpu_count()} cores, load average {load:.1f}")


def main() -> None:
    if not os.access(EXPORTER, os.X_OK):
        raise SystemExit(f"{EXPORTER} not found; run: cargo build --release --locked")
    simulator = free_port()
    azure = Program("simulator", [EXPORTER, "simulate", f"--web.listen-address=127.0.0.1:{simulator}"], simulator)
    running = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            azure.start()
            for one in programs(Path(scratch), simulator):
                one.start()
                running.append(one)
            time.sleep(10)
            measure(running, "idle")
            play(simulator)
            measure(running, "busy")
            measure_scrapes(running)
            table(running)
        finally:
            for one in [azure, *running]:
                one.process.kill()
                one.process.wait()


if __name__ == "__main__":
    main()
