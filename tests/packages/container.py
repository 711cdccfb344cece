"""Starts the container image with runc as a cluster would: uid 65532, no capabilities, read-only root, a volume.

Usage: container.py LAYOUT VERSION PLATFORM…; in a network namespace of its own, as root (tests/packages/image).
The simulator has the address of IMDS there, and a DNS server and two collectors are on loopback.
"""

from __future__ import annotations

import collections
import contextlib
import http.server
import json
import os
import shutil
import signal
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAME = "azure-scheduled-events-exporter"
USER = 65532
IMDS = "169.254.169.254"
METRICS = "http://127.0.0.1:10169/metrics"
COLLECTOR = "127.0.0.2"
IN_HOSTS, IN_DNS = "collector-in-hosts.test", "collector-in-dns.test"
# Emulated, on a busy machine.
LIMIT = 120.0
DNS_TYPE_A = 1


# Requests to the collector, by the host name in them.
received: collections.Counter[str] = collections.Counter()


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        received[self.headers["Host"].partition(":")[0]] += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class NameServer(socketserver.BaseRequestHandler):
    """Answers every question for an A record of one name with the address of the collector, others with nothing."""

    def handle(self) -> None:
        query, socket = self.request
        end = query.index(b"\0", 12) + 1
        name = b".".join(label(query, 12)).decode()
        (kind,) = struct.unpack_from(">H", query, end)
        found = name == IN_DNS and kind == DNS_TYPE_A
        answer = b""
        if found:
            answer = struct.pack(">HHHIH", 0xC00C, DNS_TYPE_A, 1, 60, 4) + bytes(map(int, COLLECTOR.split(".")))
        header = query[:2] + struct.pack(">HHHHH", 0x8580, 1, int(found), 0, 0)
        socket.sendto(header + query[12 : end + 4] + answer, self.client_address)


def label(message: bytes, at: int) -> Iterator[bytes]:
    while size := message[at]:
        yield message[at + 1 : at + 1 + size]
        at += 1 + size


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def wait_for(what: str, ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT
    while True:
        with contextlib.suppress(OSError):
            if value := ready():
                return value
        if time.monotonic() > deadline:
            raise SystemExit(f"no {what} after {LIMIT:.0f} s")
        time.sleep(0.1)


def sample(metric: str) -> str | None:
    """The value of the first series of a metric."""
    with urllib.request.urlopen(METRICS, timeout=LIMIT) as response:
        lines = response.read().decode().splitlines()
    return next((line.rpartition(" ")[2] for line in lines if line.startswith(metric)), None)


class Container:
    """The image of one platform, unpacked, with its volume."""

    def __init__(self, layout: str, version: str, platform: str, work: Path):
        self.platform = platform
        self.work = work
        self.bundle = work / "bundle"
        single = f"{work / 'image'}:{version}"
        run(
            "skopeo",
            "--override-arch",
            platform,
            "--override-os",
            "linux",
            "copy",
            "--quiet",
            f"oci:{layout}:{version}",
            f"oci:{single}",
        )
        run("umoci", "unpack", "--image", single, self.bundle)
        self.volume = work / "volume"
        self.create_volume()
        (work / "hosts").write_text(f"127.0.0.1 localhost\n{COLLECTOR} {IN_HOSTS}\n", encoding="utf-8")
        (work / "resolv.conf").write_text("nameserver 127.0.0.1\n", encoding="utf-8")

    def create_volume(self) -> None:
        self.volume.mkdir(mode=0o700)
        os.chown(self.volume, USER, USER)

    def configure(self, endpoint: str, arguments: list[str]) -> None:
        """Adds to what umoci has taken from the image what a cluster's security context and volumes set."""
        path = self.bundle / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        process = config["process"]
        if process["user"]["uid"] != USER or process["user"]["gid"] != USER:
            raise SystemExit(f"the image starts as {process['user']}")
        program = f"/usr/bin/{NAME}"
        process["args"] = [program, *arguments]
        process["terminal"] = False
        process["noNewPrivileges"] = True
        process["capabilities"] = {}
        process["env"] = [
            *(line for line in process["env"] if not line.startswith("OTEL_")),
            f"OTEL_EXPORTER_OTLP_ENDPOINT=http://{endpoint}:4318",
        ]
        config["root"]["readonly"] = True
        config["linux"]["namespaces"] = [kind for kind in config["linux"]["namespaces"] if kind["type"] != "network"]
        own = {
            "/state": (self.volume, "rw"),
            "/etc/hosts": (self.work / "hosts", "ro"),
            "/etc/resolv.conf": (self.work / "resolv.conf", "ro"),
        }
        config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in own]
        for destination, (source, access) in own.items():
            mount = {"destination": destination, "source": str(source), "type": "bind", "options": ["bind", access]}
            config["mounts"].append(mount)
        path.write_text(json.dumps(config), encoding="utf-8")

    @contextlib.contextmanager
    def started(self, endpoint: str, *arguments: str) -> Iterator[None]:
        """Runs the container, and expects that it ends with exit code 0 after SIGTERM."""
        self.configure(endpoint, list(arguments))
        runc = ("runc", "--root", str(self.work / "runc"))
        name = f"exporter-{self.platform}"
        log = self.work / "log"
        with log.open("wb") as output:
            process = subprocess.Popen([*runc, "run", "--bundle", str(self.bundle), name], stderr=output)
        try:
            try:
                wait_for(
                    "container", lambda: process.poll() is None and sample("azure_scheduled_events_up") is not None
                )
                check_privileges(json.loads(run(*runc, "state", name))["pid"])
                yield
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            if code := process.wait(LIMIT):
                raise SystemExit(f"exit code {code} after SIGTERM")
        except BaseException:
            process.kill()
            subprocess.run([*runc, "delete", "--force", name], check=False)
            print(log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            raise


def check_privileges(pid: int) -> None:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    for name, value in {
        "Uid": "\t".join([str(USER)] * 4),
        "Gid": "\t".join([str(USER)] * 4),
        "CapPrm": "0" * 16,
        "CapEff": "0" * 16,
        "NoNewPrivs": "1",
    }.items():
        if status[name] != value:
            raise SystemExit(f"{name} of the process is {status[name]}, expected {value}")


def check(container: Container) -> None:
    first_seen = "azure_scheduled_event_first_seen_timestamp_seconds{"
    seen = []
    for _ in range(2):
        with container.started(IN_HOSTS):
            seen.append(wait_for("event", lambda: sample(first_seen)))
            wait_for(f"span at {IN_HOSTS}", lambda: received[IN_HOSTS])
    if seen[0] != seen[1]:
        raise SystemExit(f"the event was first seen at {seen[0]}, after the restart at {seen[1]}")
    # Without the state the event is new, and its first span is sent again.
    shutil.rmtree(container.volume)
    container.create_volume()
    with container.started(IN_DNS):
        wait_for(f"span at {IN_DNS}", lambda: received[IN_DNS])
    with container.started(IN_HOSTS, "demo"):
        wait_for("event of the demo", lambda: sample(first_seen))
    received.clear()


def main() -> None:
    layout, version, *platforms = sys.argv[1:]
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{IMDS}/32", "dev", "lo")
    collector = http.server.ThreadingHTTPServer((COLLECTOR, 4318), Collector)
    names = socketserver.ThreadingUDPServer(("127.0.0.1", 53), NameServer)
    for server in (collector, names):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    for platform in platforms:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            container = Container(layout, version, platform, Path(folder))
            program = container.bundle / "rootfs/usr/bin" / NAME
            simulator = subprocess.Popen(
                [program, "simulate", f"--web.listen-address={IMDS}:80", "--scenario=platform-redeploy"],
                stderr=subprocess.DEVNULL,
            )
            try:
                check(container)
            finally:
                simulator.terminate()
                simulator.wait()
        print(f"image: {platform} runs: uid {USER}, no capabilities, read-only root; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
