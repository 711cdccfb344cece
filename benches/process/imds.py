"""An IMDS with one fixed document, and without ETag: each poll receives all of it.

imds.py PORT EVENTS RESOURCES
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def document(events: int, resources: int) -> bytes:
    entry = {
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": [f"web_{number}" for number in range(resources)],
        "NotBefore": "Fri, 31 Dec 2999 23:59:59 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }
    entries = [{"EventId": f"{number:08X}-52DA-4F6E-9C38-A40D7E91B265", **entry} for number in range(events)]
    return json.dumps({"DocumentIncarnation": 7, "Events": entries}).encode()


class Imds(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b""

    def do_GET(self) -> None:
        is_events = self.path.startswith("/metadata/scheduledevents")
        body = self.body if is_events else b'{"error": "not found"}'
        self.send_response(200 if is_events else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


if __name__ == "__main__":
    port, events, resources = map(int, sys.argv[1:])
    Imds.body = document(events, resources)
    ThreadingHTTPServer(("127.0.0.1", port), Imds).serve_forever()
