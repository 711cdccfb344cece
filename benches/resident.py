#!/usr/bin/env python3
"""Memory of the exporter after a document of 4 MB, and beside 64 clients that do not read their responses.

benches/resident.py                       about 2 minutes
EXPORTER=PATH benches/resident.py         a build other than target/release

VmRSS and RssAnon of /proc/PID/status in MB, without and with MALLOC_TRIM_THRESHOLD_=131072.
"""

import http.server
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def document(*events: dict) -> bytes:
    return json.dumps({"DocumentIncarnation": 1, "Events": events}).encode()


def event(number: int, **members: object) -> dict:
    return {
        "EventId": f"{number:08X}-52DA-4F6E-9C38-A40D7E91B265",
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "Fri, 31 Dec 2099 23:59:59 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
        **members,
    }


EMPTY = document()
DOCUMENTS = {
    "one event with 300,000 names": document(event(1, Resources=[f"web_{number}" for number in range(300_000)])),
    "one event with an unknown member of 4 MB": document(event(1, Extra="x" * 4_000_000)),
}
MANY_EVENTS = document(*(event(number) for number in range(3_000)))


class Imds(http.server.ThreadingHTTPServer):
    body = EMPTY

    def handle_error(self, *_: object) -> None:
        """A client that goes away is no error."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_events = "scheduledevents" in self.path
        body = self.server.body if is_events else b'{"compute":{"name":"web_0"}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Exporter:
    def __init__(self, environment: dict[str, str]) -> None:
        self.imds = Imds(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.imds.serve_forever, daemon=True).start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        program = os.environ.get("EXPORTER", "target/release/azure-scheduled-events-exporter")
        command = [
            program,
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--imds.url=http://127.0.0.1:{self.imds.server_port}",
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
        time.sleep(3)
        self.connect().close()

    def connect(self) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.port))
        client.sendall(REQUEST)
        return client

    def memory(self) -> str:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        resident, anonymous = (int(status.split(f"{name}:")[1].split()[0]) / 1000 for name in ("VmRSS", "RssAnon"))
        return f"{resident:.1f} ({anonymous:.1f})"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.imds.shutdown()


def after_document(environment: dict[str, str], body: bytes) -> list[str]:
    exporter = Exporter(environment)
    row = [exporter.memory()]
    exporter.imds.body = body
    time.sleep(4)
    row.append(exporter.memory())
    exporter.imds.body = EMPTY
    time.sleep(5)
    row.append(exporter.memory())
    exporter.stop()
    return row


def beside_readers(environment: dict[str, str]) -> list[str]:
    exporter = Exporter(environment)
    row = [exporter.memory()]
    exporter.imds.body = MANY_EVENTS
    time.sleep(4)
    clients = []
    for _ in range(64):
        clients.append(exporter.connect())
        time.sleep(0.06)
    time.sleep(4)
    row.append(exporter.memory())
    for client in clients:
        client.close()
    time.sleep(3)
    row.append(exporter.memory())
    exporter.stop()
    return row


def main() -> None:
    print("| | trim threshold | before | during | after |\n|---|---|---|---|---|")
    for name, environment in {"default": {}, "131072": {"MALLOC_TRIM_THRESHOLD_": "131072"}}.items():
        for what, body in DOCUMENTS.items():
            print(f"| {what} | {name} | {' | '.join(after_document(environment, body))} |", flush=True)
        row = beside_readers(environment)
        print(f"| 3,000 events, 64 clients that do not read | {name} | {' | '.join(row)} |", flush=True)


main()
