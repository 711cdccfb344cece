#!/usr/bin/env python3
"""Measures polls and scrapes of the exporter while its OTLP collector is absent, healthy, hanging, slow or resetting.

    benches/collector.py                  all modes in sequence, 30 s each
    DURATION=120 benches/collector.py     120 s for each mode
    benches/collector.py healthy hang     only these modes
    EXPORTER=PATH benches/collector.py    another binary (default: target/release)

Each mode starts a new exporter with its own state directory. It polls once per second and is scraped every 0.5 s.
This script is also the metadata service: it records when each poll arrives and replaces its event every 2 s, so that
there are always spans to export. This script is also the collector, with these modes:

    none      no endpoint is set, nothing is sent
    healthy   responds with 200 at once
    hang      accepts the request and never responds
    slow      responds with 200 after 3 s
    reset     resets every connection after accepting it

All traffic is on loopback. The latency of a scrape is the time from before the connection to the last byte of the body.
The first 3 s of each mode (process start) are not counted. Prints a Markdown table. The last columns are the exporter's
own metrics and show whether the mode had the intended effect. Requires only Python 3.
"""

import http.server
import itertools
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPORTER = os.environ.get("EXPORTER", str(ROOT / "target/release/azure-scheduled-events-exporter"))
SECONDS = float(os.environ.get("DURATION", "30"))
WARM_UP = 3.0
MODES = ["none", "healthy", "hang", "slow", "reset"]
VM = "bench-vm"


class Metadata(http.server.ThreadingHTTPServer):
    """The metadata service, with one event that is replaced every `event_lifetime` seconds."""

    daemon_threads = True
    event_lifetime = 2

    def __init__(self):
        super().__init__(("127.0.0.1", 0), MetadataRequest)
        self.arrivals = []
        self.started = time.monotonic()

    def document(self):
        """The Scheduled Events document with the current event."""
        generation = int((time.monotonic() - self.started) / self.event_lifetime)
        not_before = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 900))
        event = {
            "EventId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.started}/{generation}")).upper(),
            "EventType": "Freeze",
            "ResourceType": "VirtualMachine",
            "Resources": [VM],
            "EventStatus": "Scheduled",
            "NotBefore": not_before,
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": 5,
        }
        return {"DocumentIncarnation": generation + 1, "Events": [event]}


class MetadataRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Buffered, so that headers and body are one segment. Otherwise the body waits for a delayed ACK of the headers.
    wbufsize = -1

    def do_GET(self):
        if self.path.startswith("/metadata/scheduledevents"):
            self.server.arrivals.append(time.monotonic())
            self.reply(self.server.document())
        else:
            self.reply({"name": VM, "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, VM)), "location": "westeurope"})

    def reply(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Collector(http.server.ThreadingHTTPServer):
    """The OTLP collector in one mode."""

    daemon_threads = True

    def __init__(self, mode):
        super().__init__(("127.0.0.1", 0), CollectorRequest)
        self.mode = mode
        self.stopped = threading.Event()

    def process_request(self, request, client_address):
        if self.mode == "reset":
            # Closing with a linger time of zero sends RST instead of FIN.
            request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.close()
        else:
            super().process_request(request, client_address)


class CollectorRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.server.mode == "hang":
            self.server.stopped.wait()
            self.close_connection = True
            return
        if self.server.mode == "slow":
            self.server.stopped.wait(3)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def total(metrics, family):
    """The sum of all samples of a metric."""
    lines = (line for line in metrics.splitlines() if line.split("{")[0].split(" ")[0] == family)
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


def scrape(url):
    before = time.monotonic()
    with urllib.request.urlopen(url, timeout=30) as response:
        body = response.read().decode()
    return time.monotonic() - before, body


def wait_until_up(url, process):
    deadline = time.monotonic() + 30
    while True:
        try:
            return scrape(url)
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{EXPORTER} does not respond on {url}")
            time.sleep(0.05)


def scrapes_until(end, url):
    latencies, body, due = [], "", time.monotonic()
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        latency, body = scrape(url)
        latencies.append(latency)
        due += 0.5
    return latencies, body


def measure(mode, directory):
    metadata, collector = Metadata(), Collector(mode)
    for server in (metadata, collector):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    if mode != "none":
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.server_port}"
    command = [
        EXPORTER,
        f"--web.listen-address=127.0.0.1:{port}",
        f"--imds.url=http://127.0.0.1:{metadata.server_port}",
        "--imds.poll-interval=1s",
        f"--vm.name={VM}",
        f"--state.directory={directory}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/metrics"
        wait_until_up(url, process)
        time.sleep(WARM_UP)
        begin = time.monotonic()
        latencies, body = scrapes_until(begin + SECONDS, url)
        end = time.monotonic()
    finally:
        process.kill()
        process.wait()
        collector.stopped.set()
        metadata.shutdown()
        collector.shutdown()
    polls = [at for at in metadata.arrivals if begin <= at <= end]
    gaps = [later - earlier for earlier, later in itertools.pairwise(polls)]
    return gaps, latencies, body


def row(mode, gaps, latencies, body):
    ordered = sorted(latencies)

    def percentile(share):
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    prefix = "azure_scheduled_events_span"
    return (
        f"| {mode} | {len(gaps) + 1} | {statistics.median(gaps):.3f} s | {max(gaps):.3f} s "
        f"| {len(ordered)} | {percentile(0.5):.1f} ms | {percentile(0.95):.1f} ms | {ordered[-1] * 1000:.1f} ms "
        f"| {total(body, prefix + 's_exported_total')} | {total(body, prefix + '_export_failures_total')} "
        f"| {total(body, prefix + 's_spooled')} |"
    )


def main():
    modes = sys.argv[1:] or MODES
    if unknown := set(modes) - set(MODES):
        sys.exit(f"unknown mode: {', '.join(sorted(unknown))}; use {', '.join(MODES)}")
    if not os.access(EXPORTER, os.X_OK):
        sys.exit(f"{EXPORTER} not found; run: cargo build --release")
    load = [os.getloadavg()[0]]
    print(
        "| collector | polls | poll interval, median | max | scrapes | scrape p50 | p95 | max | spans exported | attempts failed | spans waiting |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for mode in modes:
        with tempfile.TemporaryDirectory() as directory:
            print(row(mode, *measure(mode, directory)), flush=True)
        load.append(os.getloadavg()[0])
    print(f"\nLoad average {min(load):.1f} to {max(load):.1f}, {os.cpu_count()} cores, {SECONDS:.0f} s for each mode.")


if __name__ == "__main__":
    main()
