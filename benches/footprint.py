#!/usr/bin/env python3
"""CPU time, memory, binary and scrapes of the exporter, beside node_exporter and a C program, in one run.

    benches/footprint.py                        about eight minutes on an otherwise idle machine
    SECONDS=15 ROUNDS=1 benches/footprint.py    a short run
    EXPORTER=PATH benches/footprint.py          another binary (default: target/release)

All programs run at the same time, and poll the same simulator once a second. The C program (benches/floor.c) does
nothing but poll. node_exporter runs with its time collector alone, and with its default collectors. The exporter runs
without OTLP, and with spans, log records and metrics over HTTP and over HTTPS, for which this script is the collector,
and over gRPC to the Collector of tests/tools/install collector. Every 15 seconds each is scraped as by Prometheus 3.

The first rounds have no event. In the others an event is announced every 20 seconds, and is over 15 seconds later.
Memory (VmHWM, VmRSS, RssAnon of /proc/PID/status; 1 MB is 1,000 kB there) is read after them and 2,000 more scrapes. The
time of a scrape is that of a Python client on one connection, 100 ms after the last one, so that each is rendered. CPU
time is /proc/PID/task/*/schedstat. Requires tests/tools/install bench collector.
"""

from __future__ import annotations

import http.client
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "rulers"))

import parts

parts.EXPORTER = os.environ.get("EXPORTER", str(parts.ROOT / "target/release/azure-scheduled-events-exporter"))
SECONDS = int(os.environ.get("SECONDS", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SCRAPE_INTERVAL = 15
SCRAPES = 2000
TIMED_SCRAPES = 200
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Accept-Encoding": "gzip",
}


@dataclass
class Program:
    name: str
    process: subprocess.Popen[bytes]
    address: str = ""
    # CPU seconds per hour without and with events, and seconds of a scrape.
    idle: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    scrapes: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection(self.address or "127.0.0.1", timeout=10)

    def scrape(self) -> None:
        self.connection.request("GET", "/metrics", headers=HEADERS)
        self.connection.getresponse().read()

    def cpu_seconds(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def status(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))

    def row(self) -> str:
        peak, resident, anonymous = (self.status(name) / 1000 for name in ("VmHWM", "VmRSS", "RssAnon"))
        cells = (
            self.name,
            f"{Path(self.process.args[0]).stat().st_size / 1e6:.1f} MB",
            *(f"{statistics.median(cpu):.2f} s ({min(cpu):.2f} to {max(cpu):.2f})" for cpu in (self.idle, self.busy)),
            f"{statistics.median(self.scrapes) * 1000:.1f} ms" if self.scrapes else "–",
            f"{peak:.1f} MB",
            f"{resident:.1f} MB ({anonymous:.1f})",
            f"{self.status('Threads'):.0f}",
        )
        return f"| {' | '.join(cells)} |"


def grpc_receiver(stack: parts.Stack) -> str:
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    found = sorted(caches.glob("azure-scheduled-events-exporter/otelcol-*/otelcol"))
    if not found:
        raise SystemExit("otelcol not found; run: tests/tools/install collector")
    pipeline = "{receivers: [otlp], exporters: [debug]}"
    config = stack.folder / "otelcol.yaml"
    config.write_text(
        "receivers: {otlp: {protocols: {grpc: {endpoint: '127.0.0.1:0'}}}}\n"
        "exporters: {debug: {}}\n"
        "service:\n  telemetry: {metrics: {level: none}}\n"
        f"  pipelines: {{traces: {pipeline}, logs: {pipeline}, metrics: {pipeline}}}\n"
    )
    return f"http://{stack.listen(found[-1], f'--config=file:{config}')[1]}"


def programs(stack: parts.Stack, azure: parts.Azure) -> list[Program]:
    floor, node = stack.folder / "floor", shutil.which("prometheus-node-exporter")
    if not node:
        raise SystemExit("prometheus-node-exporter not found; run: tests/tools/install bench")
    compiler = ["cc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", floor, parts.ROOT / "benches" / "floor.c"], check=True)
    found = [Program("floor (C)", stack.start(floor, azure.url.rpartition(":")[2]))]

    files = parts.certificate(stack.folder)
    plain, tls = (parts.receive(lambda _path, _body: None, files=one) for one in (None, files))
    otlp = {"OTEL_METRICS_EXPORTER": "otlp"}
    grpc = {"OTEL_EXPORTER_OTLP_ENDPOINT": grpc_receiver(stack), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    secure = {"OTEL_EXPORTER_OTLP_ENDPOINT": tls, "OTEL_EXPORTER_OTLP_CERTIFICATE": str(files[0])}
    # As in the systemd unit, the image and the chart.
    trim = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    for name, variables in {
        "this exporter": trim,
        "OTLP over HTTP": trim | otlp | {"OTEL_EXPORTER_OTLP_ENDPOINT": plain},
        "OTLP over HTTPS": trim | otlp | secure,
        "OTLP over gRPC": trim | otlp | grpc,
    }.items():
        state = f"--state.directory={stack.folder}/{name.replace(' ', '-')}"
        found.append(Program(name, *azure.exporter("web_0", state, "--log.level=error", **variables)))

    for name, flags in {"time only": ["--collector.disable-defaults", "--collector.time"], "defaults": []}.items():
        started = stack.listen(node, "--web.listen-address=127.0.0.1:0", *flags)
        found.append(Program(f"node_exporter ({name})", *started))
    return found


def announce(azure: parts.Azure) -> None:
    """An event of each poller's VM every 20 seconds, during all rounds."""
    count = (ROUNDS * SECONDS + TIMED_SCRAPES) // 20 + 2
    azure.play(*(parts.event("Freeze", "10s", "5s", "web_0", at=f"{20 * number}s") for number in range(count)))


def measure(running: list[Program], column: str) -> None:
    for number in range(ROUNDS):
        print(f"{column}, round {number + 1} of {ROUNDS}", file=sys.stderr)
        began, before = time.monotonic(), [one.cpu_seconds() for one in running]
        while (left := began + SECONDS - time.monotonic()) > 0:
            for one in running:
                if one.address:
                    one.scrape()
            time.sleep(min(left, SCRAPE_INTERVAL))
        took = time.monotonic() - began
        for one, cpu in zip(running, before, strict=True):
            getattr(one, column).append((one.cpu_seconds() - cpu) / took * 3600)


def measure_scrapes(scraped: list[Program]) -> None:
    for one in scraped:
        # On a busy machine the connection may have been idle for too long, here and below.
        one.connection.close()
        for _ in range(SCRAPES):
            one.scrape()
    for one in scraped:
        one.connection.close()
        one.scrape()
    for _ in range(TIMED_SCRAPES):
        time.sleep(0.1)
        for one in scraped:
            began = time.perf_counter()
            one.scrape()
            one.scrapes.append(time.perf_counter() - began)


def main() -> None:
    if not os.access(parts.EXPORTER, os.X_OK):
        raise SystemExit(f"{parts.EXPORTER} not found; run: cargo build --release --locked")
    # What is set in the shell would change what is measured.
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    with parts.Stack() as stack:
        azure = parts.Azure(stack, "web_0")
        running = programs(stack, azure)
        time.sleep(10)
        measure(running, "idle")
        announce(azure)
        measure(running, "busy")
        measure_scrapes([one for one in running if one.address])
        columns = "binary | CPU time per hour, no event | with events | scrape, median | peak memory"
        print(f"| | {columns} | resident (anonymous) | threads |\n|{'---|' * 8}")
        for one in running:
            print(one.row())
    version = subprocess.run([parts.EXPORTER, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    load = os.getloadavg()[0]
    print(f"\n{version}; {ROUNDS} rounds of {SECONDS} s; {os.cpu_count()} cores, load average {load:.1f}")


if __name__ == "__main__":
    main()
