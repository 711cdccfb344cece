#!/usr/bin/env python3
"""Measures memory and CPU time of the exporter with metrics by push, beside one that pushes nothing.

    benches/push.py                       nothing pending, 100 events, and 100 events of 100 VMs, about four minutes
    benches/push.py 0x0 100x1             only these numbers of events and VMs
    ROUNDS=5 SECONDS=120 benches/push.py  other rounds
    AFTER_END=1 benches/push.py           also the memory after all events have ended, eleven minutes more
    PRIORITY=1 benches/push.py            real-time priority for the exporters, on a machine with other load
    EXPORTER=PATH benches/push.py         another binary (default: target/release)

All exporters run at the same time: for each number of events one that does not push, one with the default interval of
60 s, and one with an interval of 1 s. They poll once a second, export neither spans nor log records, and are not
scraped. This script is the metadata service and the collector, which accepts everything. CPU time is the sum of
/proc/PID/task/*/schedstat; memory is VmHWM, VmRSS and RssAnon of /proc/PID/status, 1 MB is 1,000 kB of that file. All
traffic is on loopback. Prints a Markdown table. Requires Python 3 and Linux.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from collector import EXPORTER, Collector, Metadata, free_port, scrape, total, wait_until_up
from memory import memory
from process import imds

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = int(os.environ.get("SECONDS", "60"))
PRIORITY = os.environ.get("PRIORITY")
AFTER_END = os.environ.get("AFTER_END") == "1"
# The first push at the default interval.
WARM_UP = 65
# Ended events are shown for ten minutes.
UNTIL_GONE = 630
SIZES = ["0x0", "100x1", "100x100"]
INTERVALS = {"off": None, "60 s": "60000", "1 s": "1000"}


class ManyEvents(Metadata):
    """The metadata service with events that do not change."""

    def __init__(self, events, resources):
        super().__init__()
        self.fixed = json.loads(imds.document(events, resources))

    def document(self):
        return self.fixed


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Exporter:
    def __init__(self, metadata, collector, interval):
        port = free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        if interval:
            environment |= {
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_METRIC_EXPORT_INTERVAL": interval,
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://127.0.0.1:{collector.server_port}/v1/metrics",
            }
        command = [
            *(["chrt", "-r", PRIORITY] if PRIORITY else []),
            EXPORTER,
            f"--web.listen-address=127.0.0.1:{port}",
            f"--imds.url=http://127.0.0.1:{metadata.server_port}",
            "--vm.name=web_0",
            "--metrics.resources",
            "--log.level=error",
        ]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}/-/healthy"
        wait_until_up(self.url, self.process)
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.hours = []

    def cpu_seconds(self):
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def memory(self):
        peak, resident, anonymous = memory(self.process.pid)
        return f"{peak:.1f} MB | {resident:.1f} MB ({anonymous:.1f})"

    def points(self):
        _, body = scrape(self.url)
        return total(body, "azure_scheduled_events_metric_points_exported_total")


def rounds(exporters):
    time.sleep(WARM_UP)
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        before = [exporter.cpu_seconds() for exporter in exporters]
        start = time.monotonic()
        time.sleep(SECONDS)
        took = time.monotonic() - start
        for exporter, cpu in zip(exporters, before, strict=True):
            exporter.hours.append((exporter.cpu_seconds() - cpu) / took * 3600)


def main():
    sizes = sys.argv[1:] or SIZES
    if not os.access(EXPORTER, os.X_OK):
        sys.exit(f"{EXPORTER} not found; run: cargo build --release")
    collector = serve(Collector("healthy"))
    services = {size: serve(ManyEvents(*map(int, size.split("x")))) for size in sizes}
    exporters = {}
    try:
        for size, service in services.items():
            for name, interval in INTERVALS.items():
                exporters[size, name] = Exporter(service, collector, interval)
        rounds(list(exporters.values()))
        print("| events x VMs | push | CPU time per hour | peak (VmHWM) | resident (anonymous) | points |")
        print("|---|---|---|---|---|---|")
        for (size, name), exporter in exporters.items():
            hours = exporter.hours
            cpu = f"{statistics.median(hours):.2f} s ({min(hours):.2f} to {max(hours):.2f})"
            used = exporter.memory()
            print(f"| {size} | {name} | {cpu} | {used} | {exporter.points()} |", flush=True)
        if AFTER_END:
            for service in services.values():
                service.events = []
            time.sleep(UNTIL_GONE)
            print("\n| after the end of all events | push | peak (VmHWM) | resident (anonymous) |\n|---|---|---|---|")
            for (size, name), exporter in exporters.items():
                print(f"| {size} | {name} | {exporter.memory()} |")
    finally:
        for exporter in exporters.values():
            exporter.process.kill()
            exporter.process.wait()
    print(f"\n{ROUNDS} rounds of {SECONDS} s, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
