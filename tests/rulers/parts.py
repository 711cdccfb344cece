"""Starts the parts of an alert path on loopback: simulated Azure, exporters, Prometheus, Alertmanager, a webhook.

EXPORTER is the binary of the exporter, instead of target/debug.
"""

from __future__ import annotations

import http.server
import itertools
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ALERTS = ROOT / "alerts"
EXAMPLE = ALERTS / "alertmanager.example.yml"
EXPORTER = str(Path(os.environ.get("EXPORTER", ROOT / "target/debug/azure-scheduled-events-exporter")).resolve())
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "azure-scheduled-events-exporter"
PINS = dict(re.findall(r"(?m)^([A-Z0-9_]+)=(.*)", (ROOT / "tests/tools/pins").read_text(encoding="utf-8")))
JOB = "azure-scheduled-events"
Started = tuple[subprocess.Popen[bytes], str]  # and the address at which it listens


def built(name: str) -> str:
    """A program that `tests/tools/install` has built: prometheus3, alertmanager, thanos or cortex."""
    program = name.rstrip("3")
    folder = CACHE / f"{program}-{PINS[f'{name.upper()}_VERSION']}"
    return present(folder / program, "rulers" if name in {"thanos", "cortex"} else name)


def debian(program: str) -> str:
    return present(Path("/usr/bin") / program, "debian")


def present(path: Path, tool: str) -> str:
    if not path.exists():
        raise SystemExit(f"{path} is missing; run: tests/tools/install {tool}")
    return str(path)


def free_address() -> str:
    """For programs that listen on several ports. The port is free now; another program can still take it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def request(url: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
    """The body of a 2xx response. `body` is sent as JSON."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} | (headers or {})
    with urllib.request.urlopen(urllib.request.Request(url, data, sent), timeout=60) as response:
        return response.read()


def query(address: str, expr: str, headers: dict[str, str] | None = None) -> list[Any]:
    """The result of an instant query of Prometheus or of what has its API at this address."""
    url = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
    return json.loads(request(url, headers=headers))["data"]["result"]


def wait_for(what: str, ready: Callable[[], Any], limit: float = 180.0) -> Any:
    """Polls `ready` until its result is true, for at most `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        try:
            if result := ready():
                return result
        except (OSError, KeyError, json.JSONDecodeError):
            pass
        if time.monotonic() > end:
            raise TimeoutError(f"timed out after {limit:.0f} s waiting for {what}")
        time.sleep(0.2)


class Stack:
    """The processes of one run and their directory. Ends all of them at the end of the block."""

    def __enter__(self) -> Stack:
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self._scratch.name)
        self.processes: list[tuple[subprocess.Popen[bytes], Path]] = []
        return self

    def start(self, *command: object, **variables: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{len(self.processes):04}-{Path(str(command[0])).name}.log"
        words, own = [str(word) for word in command], os.environ | variables
        with log.open("wb") as out:
            process = subprocess.Popen(words, stdout=out, stderr=out, cwd=self.folder, env=own)
        self.processes.append((process, log))
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return next(log for one, log in self.processes if one is process).read_text(encoding="utf-8", errors="replace")

    def check_runs(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended with {process.returncode}:\n{self.log(process)[-2000:]}")

    def listen(self, *command: object, **variables: str) -> Started:
        """Starts a program with port 0."""
        process = self.start(*command, **variables)
        links = Path(f"/proc/{process.pid}/fd")

        def port() -> int:
            self.check_runs(process)
            inodes = {str(link.readlink()).removeprefix("socket:[").rstrip("]") for link in links.iterdir()}
            rows = (row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
            return next((int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes), 0)

        return process, f"127.0.0.1:{wait_for(f'{command[0]} to listen', port)}"

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended = [process for process, _log in self.processes if process.poll() not in (None, 0, -9, -15)]
        for process, _log in self.processes:
            process.kill()
        for process, _log in self.processes:
            process.wait(60)
        for process in ended if kind else []:
            print(
                f"---- {process.args[0]} ended with {process.returncode}\n{self.log(process)[-2000:]}", file=sys.stderr
            )
        self._scratch.cleanup()


@dataclass
class Notification:
    at: float  # of time.monotonic
    receiver: str
    request: int  # alerts that came in one request have the same number
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def event(self) -> str:
        return self.labels.get("event_id", "")

    def __str__(self) -> str:
        labels = ", ".join(f"{key}={value}" for key, value in self.labels.items() if key != "alertname")
        summary = self.annotations.get("summary", "")
        return f"{self.status:8} {self.labels['alertname']} to {self.receiver}: {summary} ({labels})"


def certificate(folder: Path) -> tuple[Path, Path]:
    """cert.pem for localhost, which is its own authority, and key.pem in a folder."""
    files = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    paths = ["-out", files[0], "-keyout", files[1]]
    subprocess.run([*command.split(), *options.split(), *paths], check=True, capture_output=True)
    return files


def receive(posted: Callable[[str, bytes], None], port: int = 0, files: tuple[Path, Path] | None = None) -> str:
    """Accepts POSTs as a webhook or a collector does, and calls `posted` with their path and body. Returns the URL.

    `files` are a certificate and its key, for TLS.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            posted(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"{'https' if files else 'http'}://127.0.0.1:{server.server_port}"


class Webhook:
    """Records every alert of every notification."""

    def __init__(self) -> None:
        self.received: list[Notification] = []
        self.numbers = itertools.count()
        self.url = receive(self._record)

    def _record(self, _path: str, body: bytes) -> None:
        message, number = json.loads(body), next(self.numbers)
        for one in message["alerts"]:
            alert = one["status"], one["labels"], one["annotations"]
            self.received.append(Notification(time.monotonic(), message["receiver"], number, *alert))

    def of_event(self, event_id: str, status: str) -> list[Notification]:
        return [one for one in list(self.received) if one.event == event_id and one.status == status]

    def not_once(self, event_id: str) -> list[str]:
        """Complaints, unless each receiver was notified of the event and of its end exactly once."""
        found = {status: self.of_event(event_id, status) for status in ("firing", "resolved")}
        counts = {status: (len(all_), len({one.receiver for one in all_})) for status, all_ in found.items()}
        return [
            f"{count} {status} notifications of {receivers} receivers"
            for status, (count, receivers) in counts.items()
            if count == 0 or count > receivers
        ]

    def print(self) -> None:
        for one in list(self.received):
            print(f"    {one}")


def alertmanager(
    stack: Stack, program: str, webhook: Webhook, wait: str = "1s", interval: str = "5s", path: Path = EXAMPLE
) -> str:
    """Starts an Alertmanager with a configuration of alerts/ and returns its address.

    Each receiver but `nobody` is the webhook. `wait` and `interval`, unless empty, replace those of the groups, except
    a wait of 0.
    """
    routes, receivers = re.sub(r"(?m)^templates:.*\n", "", path.read_text(encoding="utf-8")).split("\nreceivers:\n")
    for key, value in (("group_wait", wait), ("group_interval", interval)):
        if value:
            routes = re.sub(rf"{key}: (?!0s)\d\w+", f"{key}: {value}", routes)
            if f"\n  {key}" not in routes:
                routes = routes.replace("\nroute:\n", f"\nroute:\n  {key}: {value}\n")
    for name in re.findall(r"(?m)^  - name: (\S+)", receivers):
        hook = "" if name == "nobody" else f", webhook_configs: [{{ url: '{webhook.url}' }}]"
        routes += ("" if "\nreceivers:" in routes else "\nreceivers:") + f"\n  - {{ name: {name}{hook} }}"
    home = Path(tempfile.mkdtemp(dir=stack.folder))
    (home / "alertmanager.yml").write_text(routes, encoding="utf-8")
    flags = f"--config.file={home}/alertmanager.yml", f"--storage.path={home}/data", "--cluster.listen-address="
    _, address = stack.listen(program, *flags, "--web.listen-address=127.0.0.1:0")
    wait_for("Alertmanager", lambda: request(f"http://{address}/-/ready"))
    return address


def start_prometheus(
    stack: Stack, program: str, targets: list[Any], *flags: str, **config: Any
) -> tuple[subprocess.Popen[bytes], str, Path]:
    """Scrapes `targets` with this configuration. Returns the process, its address and its data directory."""
    home = Path(tempfile.mkdtemp(dir=stack.folder))
    config["scrape_configs"] = [{"job_name": JOB, "static_configs": targets}]
    # JSON is YAML.
    (home / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    own = f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"
    process, address = stack.listen(program, *own, "--web.listen-address=127.0.0.1:0", *flags)
    return process, address, home / "data"


def notifying(address: str) -> dict[str, Any]:
    """The configuration of a Prometheus that notifies the Alertmanager at this address."""
    return {"alertmanagers": [{"static_configs": [{"targets": [address]}]}]}


class Azure:
    """The simulator, and the exporters of its VMs."""

    def __init__(self, stack: Stack, vm: str) -> None:
        self.stack = stack
        _, address = stack.listen(EXPORTER, "simulate", "--web.listen-address=127.0.0.1:0", f"--vm.name={vm}")
        self.url = f"http://{address}"

    def exporter(self, vm: str, *flags: str, address: str = "127.0.0.1:0", **variables: str) -> Started:
        """Without a state directory: hundreds of them would wait for the disk."""
        own = f"--web.listen-address={address}", f"--imds.url={self.url}", f"--vm.name={vm}"
        return self.stack.listen(EXPORTER, *own, *flags, **variables)

    def play(self, *events: dict[str, Any]) -> dict[str, str]:
        """Announces these events now. Returns the ids of the events in the document, by type."""
        request(f"{self.url}/simulator/start", {"scenario": {"events": list(events)}})
        url = f"{self.url}/metadata/scheduledevents?api-version=2020-07-01"
        document = json.loads(request(url, headers={"Metadata": "true"}))
        return {event["EventType"]: event["EventId"] for event in document["Events"]}


def event(event_type: str, notice: str, started_for: str, *vms: str, **more: Any) -> dict[str, Any]:
    own = {"event_type": event_type, "resources": list(vms), "notice": notice, "started_for": started_for}
    return own | more


def rules(stack: Stack) -> Path:
    """The rule files of alerts/. AzureScheduledEventsExporterDown fires after 5 seconds, not 10 minutes."""
    copies = stack.folder / "rules"
    if copies.exists():
        return copies
    copies.mkdir()
    for path in ROOT.glob("alerts/*.rules.yml"):
        text = path.read_text(encoding="utf-8").replace("for: 10m\n", "for: 5s\n")
        (copies / path.name).write_text(text, encoding="utf-8")
    return copies


def rule_errors(groups: list[dict[str, Any]]) -> list[str]:
    rules = (rule for group in groups for rule in group["rules"])
    return [f"rule {rule['name']}: {rule['lastError']}" for rule in rules if rule.get("lastError")]


def report(name: str, wrong: list[str]) -> int:
    """Prints the findings and the verdict. Returns the exit code."""
    for one in wrong:
        print(f"FAIL  {one}")
    print(f"{name}: {f'{len(wrong)} findings' if wrong else 'ok'}")
    return 1 if wrong else 0
