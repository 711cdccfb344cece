#!/usr/bin/env python3
"""Scrapes beside clients that hold connections, of the exporter and of node_exporter in one run.

benches/connections.py                    about 4 minutes, on an otherwise idle machine
SECONDS=20 benches/connections.py         a shorter run (default: 30 s for each row and program)
EXPORTER=PATH benches/connections.py      a build other than target/release

Each client reopens its connection at once when it is closed. `half-sent` sends a part of a request head, `silent`
sends nothing, `non-reading` sends requests and does not read the responses. A scrape every 0.3 s uses a new connection.
"""

import errno
import multiprocessing
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

SECONDS = float(os.environ.get("SECONDS", "30"))
INTERVAL = 0.3
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF = b"GET /metrics HTTP/1.1\r\nHost: 127.0."
CROWDS = {
    "none": {},
    "500 half-sent": {"half": 500},
    "500 silent": {"silent": 500},
    "64 non-reading": {"deaf": 64},
    "all 1064": {"half": 500, "silent": 500, "deaf": 64},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Crowd:
    """Clients of one process, served by one epoll."""

    def __init__(self, port: int, kinds: dict[str, int], opened) -> None:
        self.port = port
        self.opened = opened
        self.poll = select.epoll()
        self.clients: dict[int, tuple[socket.socket, str]] = {}
        for kind, count in kinds.items():
            for _ in range(count):
                self.open(kind)

    def open(self, kind: str) -> None:
        client = socket.socket()
        if kind == "deaf":
            # A small window, so that the server notices soon.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        result = client.connect_ex(("127.0.0.1", self.port))
        if result not in (0, errno.EINPROGRESS):
            raise OSError(result, os.strerror(result))
        self.clients[client.fileno()] = (client, kind)
        self.poll.register(client, select.EPOLLOUT | select.EPOLLRDHUP)
        with self.opened.get_lock():
            self.opened.value += 1

    def handle(self, fileno: int, events: int) -> None:
        client, kind = self.clients[fileno]
        is_closed = events & (select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP)
        if not is_closed and events & select.EPOLLOUT:
            try:
                if kind == "half":
                    client.send(HALF)
                elif kind == "deaf":
                    client.send(REQUEST * 50)
                    return
                self.poll.modify(client, select.EPOLLRDHUP)
            except BlockingIOError:
                pass
            except OSError:
                is_closed = True
        if is_closed:
            self.poll.unregister(client)
            client.close()
            del self.clients[fileno]
            self.open(kind)

    def run(self) -> None:
        while True:
            for fileno, events in self.poll.poll():
                self.handle(fileno, events)


def run_crowd(port: int, kinds: dict[str, int], opened) -> None:
    Crowd(port, kinds, opened).run()


def scrape(port: int) -> float:
    """The seconds from the connect to the end of the response; raises OSError when it fails."""
    start = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = b""
        while chunk := client.recv(65536):
            received += chunk
    if not received.startswith(b"HTTP/1.1 200"):
        raise OSError(f"no 200: {received[:40]!r}")
    return time.perf_counter() - start


def measure(name: str, pid: int, port: int, crowd: str) -> None:
    kinds = CROWDS[crowd]
    opened = multiprocessing.Value("q", 0)
    attackers = [
        multiprocessing.Process(target=run_crowd, args=(port, {kind: count}, opened), daemon=True)
        for kind, count in kinds.items()
    ]
    for attacker in attackers:
        attacker.start()
    time.sleep(1)
    took, failed = [], 0
    end = time.monotonic() + SECONDS
    due = time.monotonic()
    before = opened.value
    while time.monotonic() < end:
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + INTERVAL, time.monotonic())
        try:
            took.append(scrape(port))
        except OSError:
            failed += 1
    reopened = (opened.value - before) / SECONDS
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0]) / 1000
    for attacker in attackers:
        attacker.terminate()
        attacker.join()
    took.sort()
    p99 = took[min(len(took) - 1, int(len(took) * 0.99))] if took else float("nan")
    median = statistics.median(took) if took else float("nan")
    worst = took[-1] if took else float("nan")
    print(
        f"| {crowd} | {name} | {len(took) + failed} | {failed} | {median * 1000:.1f} ms | {p99 * 1000:.1f} ms"
        f" | {worst * 1000:.1f} ms | {reopened:.0f} | {resident:.1f} MB |",
        flush=True,
    )


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            scrape(port)
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"no response on port {port}")


def build() -> str:
    subprocess.run(["cargo", "build", "--release", "--locked"], check=True, cwd=Path(__file__).parents[1])
    return str(Path(__file__).parents[1] / "target/release/azure-scheduled-events-exporter")


def main() -> None:
    exporter = os.environ.get("EXPORTER") or build()
    node = shutil.which("prometheus-node-exporter") or sys.exit(
        "prometheus-node-exporter not found; run: tests/tools/install bench"
    )
    imds, ours, theirs = free_port(), free_port(), free_port()
    commands = [
        [exporter, "simulate", f"--web.listen-address=127.0.0.1:{imds}", "--scenario=host-maintenance"],
        [exporter, f"--web.listen-address=127.0.0.1:{ours}", f"--imds.url=http://127.0.0.1:{imds}"],
        [node, "--collector.disable-defaults", "--collector.time", f"--web.listen-address=127.0.0.1:{theirs}"],
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen(command, **quiet) for command in commands]
    try:
        wait_for(ours)
        wait_for(theirs)
        print("| clients | program | scrapes | failed | p50 | p99 | max | reopened per second | resident |")
        print("|---|---|---|---|---|---|---|---|---|")
        for crowd in CROWDS:
            measure("this exporter", started[1].pid, ours, crowd)
            measure("node_exporter (time only)", started[2].pid, theirs, crowd)
    finally:
        for process in started:
            process.kill()
            process.wait()


main()
