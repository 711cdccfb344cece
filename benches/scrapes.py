#!/usr/bin/env python3
"""Measures what a scrape costs, of one build or of several side by side, and prints a Markdown table.

    benches/scrapes.py [EXPORTER…]          builds to compare; without an argument: target/release; about 3 minutes
    PRIORITY=1 benches/scrapes.py           real-time priority for the exporters, on a machine with other load

CPU time: /proc/PID/task/*/schedstat before and after a scrape by this script, 110 ms after the last one, so that each
scrape is rendered; its caches are cold. Latency: wrk with one connection, whose requests share one rendering within
100 ms. The builds take turns.
"""

import contextlib
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

BENCHES = Path(__file__).resolve().parent
SCRAPES = int(os.environ.get("SCRAPES", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PRIORITY = os.environ.get("PRIORITY")
OPEN_METRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
GZIP = {"Accept-Encoding": "gzip"}
TEXT = {"Accept": "text/plain;version=0.0.4"}
ROWS = [
    ("nothing pending, OpenMetrics, gzip", 0, 1, OPEN_METRICS | GZIP),
    ("nothing pending, OpenMetrics", 0, 1, OPEN_METRICS),
    ("100 events, OpenMetrics", 100, 1, OPEN_METRICS),
    ("100 events, text 0.0.4", 100, 1, TEXT),
    ("100 events of 100 VMs, OpenMetrics", 100, 100, OPEN_METRICS),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(*command: object) -> Iterator[int]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        try:
            yield process.pid
            if process.poll() is not None:
                log.seek(0)
                sys.exit(f"{command[0]} has ended: {log.read()[-500:].decode(errors='replace')}")
        finally:
            process.kill()
            process.wait()


def get(port: int, headers: dict[str, str]) -> int:
    """The length of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers=headers)
    return len(connection.getresponse().read())


def wait_for_poll(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/-/ready")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    sys.exit("no successful poll within 30 s")


def cpu_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def cpu_of_scrape(pid: int, port: int, headers: dict[str, str]) -> float:
    used = []
    for _ in range(SCRAPES):
        time.sleep(0.11)
        before = cpu_seconds(pid)
        get(port, headers)
        used.append(cpu_seconds(pid) - before)
    return statistics.median(used)


def latency(port: int, headers: dict[str, str]) -> float:
    lines = [f"--header={name}: {value}" for name, value in headers.items()]
    script = "function done(_, latency) io.write('P50 ', latency:percentile(50)) end"
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", "-c1", "-d1s", *lines, "-s", file.name, f"http://127.0.0.1:{port}/metrics"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.split("P50 ")[1]) / 1e6


def spread(values: list[float]) -> str:
    low, middle, high = (f"{value * 1e6:.0f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} µs ({low} to {high})"


def main() -> None:
    if shutil.which("wrk") is None:
        sys.exit("wrk not found; run: tests/tools/install bench")
    builds = sys.argv[1:] or [str(BENCHES.parent / "target/release/azure-scheduled-events-exporter")]
    priority = ["chrt", "-r", PRIORITY] if PRIORITY else []
    print(f"{os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}; {ROUNDS} rounds of {SCRAPES} scrapes\n")
    print("| " + "".join(f"| {name}: CPU time | wrk p50 " for name in builds) + "|")
    print("|---" + "|---|---" * len(builds) + "|")
    for name, events, resources, headers in ROWS:
        with contextlib.ExitStack() as stack:
            imds = free_port()
            stack.enter_context(running("python3", BENCHES / "process/imds.py", imds, events, resources))
            exporters = []
            for build in builds:
                port = free_port()
                options = [f"--web.listen-address=127.0.0.1:{port}", f"--imds.url=http://127.0.0.1:{imds}"]
                options += ["--vm.name=web_0", *(["--metrics.resources"] if resources > 1 else [])]
                exporters.append((stack.enter_context(running(*priority, build, *options)), port))
                wait_for_poll(port)
            rounds = [
                [(cpu_of_scrape(*exporter, headers), latency(exporter[1], headers)) for exporter in exporters]
                for _ in range(ROUNDS)
            ]
            size = get(exporters[0][1], headers)
        cells = [spread(list(values)) for turns in zip(*rounds, strict=True) for values in zip(*turns, strict=True)]
        print(f"| {name}, {size / 1000:.1f} kB | " + " | ".join(cells) + " |", flush=True)


main()
