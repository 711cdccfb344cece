#!/usr/bin/env python3
"""Measures the delay between the appearance of an event in IMDS and on /metrics.

    benches/delay.py                  60 events, about 3 minutes
    RUNS=20 benches/delay.py          20 events
    EXPORTER=PATH benches/delay.py    another binary (default: target/release)

This script is also the IMDS server: it adds and removes an event at random times. The exporter polls it at its default
interval of one second. The script requests /metrics over one connection every 2 ms until the event appears. The
results include the overhead of these requests. The limit is one poll interval plus 50 ms.
"""

import http.client
import http.server
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPORTER = os.environ.get("EXPORTER", ROOT / "target/release/azure-scheduled-events-exporter")
RUNS = int(os.environ.get("RUNS", "60"))
INTERVAL = 1.0
IDENTITY = {"name": "vm_0", "vmId": "0"}


class Imds:
    """An IMDS server with the events of the last `set_events` call."""

    def __init__(self):
        self.document = {"DocumentIncarnation": 1, "Events": []}
        imds = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                content = IDENTITY if "/instance/" in self.path else imds.document
                body = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def set_events(self, *ids):
        events = [
            {
                "EventId": event_id,
                "EventType": "Freeze",
                "EventStatus": "Scheduled",
                "Resources": ["vm_0"],
                "EventSource": "Platform",
                "ResourceType": "VirtualMachine",
                "NotBefore": "Fri, 31 Dec 2999 23:59:59 GMT",
                "DurationInSeconds": 9,
            }
            for event_id in ids
        ]
        self.document = {"DocumentIncarnation": self.document["DocumentIncarnation"] + 1, "Events": events}


def scrape(connection):
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def main():
    imds = Imds()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    flags = [f"--imds.url={imds.url}", f"--web.listen-address=127.0.0.1:{port}"]
    exporter = subprocess.Popen([EXPORTER, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        deadline = time.monotonic() + 30
        while True:
            try:
                if "azure_scheduled_events_up 1" in scrape(connection):
                    break
            except OSError:
                connection.close()
            if time.monotonic() > deadline:
                sys.exit("delay.py: the exporter did not start within 30 s")
            time.sleep(0.05)
        delays = []
        for run in range(RUNS):
            event_id = f"{run:08X}-52DA-4F6E-9C38-A40D7E91B265"
            time.sleep(1 + random.random() * 1.5)
            imds.set_events(event_id)
            shown_at = time.monotonic()
            while f'azure_scheduled_event_info{{event_id="{event_id}"' not in scrape(connection):
                if time.monotonic() - shown_at > 30:
                    sys.exit(f"delay.py: {event_id} did not appear within 30 s")
                time.sleep(0.002)
            delays.append(time.monotonic() - shown_at)
            imds.set_events()
    finally:
        exporter.terminate()
        exporter.wait()
    within = sum(delay <= INTERVAL + 0.05 for delay in delays)
    print(
        f"{RUNS} events: median {statistics.median(delays):.3f} s, maximum {max(delays):.3f} s, minimum {min(delays):.3f} s; "
        f"{within} within one poll interval plus 50 ms"
    )


main()
