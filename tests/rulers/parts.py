"""Starts the parts of an alert path on loopback: simulated Azure, exporters, Prometheus, Alertmanager, a webhook."""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "dashboards"))

from boards import ROOT
from prometheus import exporter_binary, listening_port

# Another checkout, to test its rules and its example.
CHECKOUT = Path(os.environ.get("CHECKOUT", ROOT)).resolve()
EXAMPLE = CHECKOUT / "alerts" / "alertmanager.example.yml"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "azure-scheduled-events-exporter"
PINS = dict(
    line.split("=", 1)
    for line in (ROOT / "tests" / "tools" / "pins").read_text(encoding="utf-8").splitlines()
    if re.match(r"[A-Z0-9_]+=", line)
)
JOB = "azure-scheduled-events"


def built(tool: str, name: str, program: str) -> str:
    """A program that `tests/tools/install` has built, for example ("prometheus3", "prometheus", "promtool")."""
    version = PINS[f"{'prometheus3' if tool == 'prometheus3' else name}_VERSION".upper()]
    return present(CACHE / f"{name}-{version}" / program, tool)


def present(path: Path, tool: str) -> str:
    if not path.exists():
        raise SystemExit(f"{path} is missing; run: tests/tools/install {tool}")
    return str(path)


def debian(program: str) -> str:
    return present(Path("/usr/bin") / program, "debian")


@cache
def help_text() -> bytes:
    return subprocess.run([exporter_binary(), "--help"], capture_output=True, check=True).stdout


def free_address() -> str:
    """For programs that listen on several ports. The port is free now; another program can still take it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def request(url: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
    """The body of a 2xx response. `body` is sent as JSON, or unchanged if it is text."""
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    kind = {"Content-Type": "application/yaml" if isinstance(body, str) else "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, kind | (headers or {})), timeout=60) as response:
        return response.read()


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

    def start(self, *command: object) -> subprocess.Popen[bytes]:
        log = self.folder / f"{len(self.processes):04}-{Path(str(command[0])).name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=out, stderr=out, cwd=self.folder, stdin=subprocess.DEVNULL
            )
        self.processes.append((process, log))
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return next(log for one, log in self.processes if one is process).read_text(encoding="utf-8", errors="replace")

    def listen(self, *command: object) -> tuple[subprocess.Popen[bytes], str]:
        """Starts a program with port 0 and returns its address."""
        process = self.start(*command)
        return process, f"127.0.0.1:{listening_port(process)}"

    def wait_for(self, what: str, ready: Callable[[], Any]) -> None:
        """Waits until the program that was started last is ready."""
        process, log = self.processes[-1]

        def is_ready() -> Any:
            if process.poll() is not None:
                tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise SystemExit(f"{what} ended with {process.returncode}:\n{tail}")
            return ready()

        wait_for(what, is_ready)

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        ended = [(process, log) for process, log in self.processes if process.poll() not in (None, 0, -9, -15)]
        for process, _log in self.processes:
            process.kill()
        for process, _log in self.processes:
            process.wait(60)
        for process, log in ended if kind else []:
            print(f"---- {process.args[0]} ended with {process.returncode}", file=sys.stderr)
            print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]), file=sys.stderr)
        if kind and (kept := os.environ.get("KEEP_LOGS")):
            subprocess.run(["cp", "-r", str(self.folder), kept], check=False)
        self._scratch.cleanup()


@dataclass
class Notification:
    at: float  # seconds since the start of the webhook
    receiver: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def event(self) -> str:
        return self.labels.get("event_id", "")

    def __str__(self) -> str:
        labels = ", ".join(f"{key}={value}" for key, value in self.labels.items() if key != "alertname")
        return (
            f"{self.at:7.1f} s  {self.status:8} {self.labels['alertname']} to {self.receiver}: "
            f"{self.annotations.get('summary', '')} ({labels})"
        )


@dataclass
class Webhook:
    """Records every alert of every notification."""

    received: list[Notification] = field(default_factory=list)

    def __post_init__(self) -> None:
        began, received = time.monotonic(), self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at = time.monotonic() - began
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in message["alerts"]:
                    received.append(
                        Notification(at, message["receiver"], alert["status"], alert["labels"], alert["annotations"])
                    )
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.began = began
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def of_event(self, event_id: str, status: str) -> list[Notification]:
        return [one for one in list(self.received) if one.event == event_id and one.status == status]

    def print(self) -> None:
        for one in list(self.received):
            print(f"    {one}")


def alertmanager_config(webhook: str, group_interval: str) -> str:
    """The routes and inhibitions of the example with shorter waits; each receiver but `nobody` is the webhook."""
    text = EXAMPLE.read_text(encoding="utf-8")
    routes, receivers = text.split("\nreceivers:\n")
    names = re.findall(r"^  - name: (\S+)", receivers, re.MULTILINE)
    routes = re.sub(r"group_interval: \d\w+", f"group_interval: {group_interval}", routes)
    routes = re.sub(r"group_wait: (?!0s)\d\w+", "group_wait: 1s", routes)
    routes = re.sub(r"^templates:.*\n(  - .*\n|\[.*\]\n)*", "", routes, flags=re.MULTILINE)
    hooks = "".join(
        f"  - name: {name}\n" + ("" if name == "nobody" else f"    webhook_configs: [{{ url: '{webhook}' }}]\n")
        for name in names
    )
    return f"{routes}\nreceivers:\n{hooks}"


def alertmanager(stack: Stack, program: str, webhook: Webhook, group_interval: str = "5s") -> str:
    """Starts an Alertmanager and returns its address."""
    home = Path(tempfile.mkdtemp(dir=stack.folder))
    config = home / "alertmanager.yml"
    config.write_text(alertmanager_config(webhook.url, group_interval), encoding="utf-8")
    _, address = stack.listen(
        program,
        f"--config.file={config}",
        f"--storage.path={home}/data",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    )
    wait_for("Alertmanager", lambda: request(f"http://{address}/-/ready"))
    return address


def start_prometheus(stack: Stack, program: str, config: str, *flags: str) -> tuple[subprocess.Popen[bytes], str, Path]:
    """Returns the process, its address and its data directory."""
    home = Path(tempfile.mkdtemp(dir=stack.folder))
    (home / "prometheus.yml").write_text(config, encoding="utf-8")
    process, address = stack.listen(
        program,
        f"--config.file={home}/prometheus.yml",
        f"--storage.tsdb.path={home}/data",
        "--web.listen-address=127.0.0.1:0",
        *flags,
    )
    return process, address, home / "data"


class Azure:
    """The simulator, and the exporters of its VMs."""

    def __init__(self, stack: Stack, vm: str):
        self.stack, self.program = stack, exporter_binary()
        _, address = stack.listen(self.program, "simulate", "--web.listen-address=127.0.0.1:0", f"--vm.name={vm}")
        self.url = f"http://{address}"

    def exporter(self, vm: str, *flags: str, address: str = "127.0.0.1:0") -> tuple[subprocess.Popen[bytes], str]:
        """Returns the process and its address. Without a state directory: hundreds of them would wait for the disk."""
        return self.stack.listen(
            self.program,
            f"--web.listen-address={address}",
            f"--imds.url={self.url}",
            f"--vm.name={vm}",
            *flags,
        )

    def play(self, *events: dict[str, Any]) -> None:
        request(f"{self.url}/simulator/start", {"scenario": {"events": list(events)}})

    def events(self) -> dict[str, str]:
        """The ids of the events in the document, by type."""
        url = f"{self.url}/metadata/scheduledevents?api-version=2020-07-01"
        document = json.loads(request(url, headers={"Metadata": "true"}))
        return {event["EventType"]: event["EventId"] for event in document["Events"]}


def event(event_type: str, notice: str, started_for: str, *vms: str, **more: Any) -> dict[str, Any]:
    return {
        "event_type": event_type,
        "resources": list(vms),
        "notice": notice,
        "started_for": started_for,
    } | more


def rules(folder: Path) -> Path:
    """The rule files of alerts/ and dashboards/. `AzureScheduledEventsExporterDown` fires after 5 seconds rather than 10 minutes."""
    copies = folder / "rules"
    copies.mkdir()
    for path in [*CHECKOUT.glob("alerts/*.rules.yml"), *CHECKOUT.glob("dashboards/*.rules.yml")]:
        text = path.read_text(encoding="utf-8").replace("for: 10m\n", "for: 5s\n")
        (copies / path.name).write_text(text, encoding="utf-8")
    return copies


def rule_errors(groups: list[dict[str, Any]]) -> list[str]:
    return [
        f"rule {rule['name']}: {rule['lastError']}"
        for group in groups
        for rule in group["rules"]
        if rule.get("lastError")
    ]


def not_once(webhook: Webhook, event_id: str, status: str) -> list[str]:
    """Complaints, unless each receiver that was notified of the event was notified exactly once."""
    found = webhook.of_event(event_id, status)
    receivers = {one.receiver for one in found}
    if not found:
        return [f"no {status} notification"]
    if len(found) > len(receivers):
        return [f"{len(found)} {status} notifications of {len(receivers)} receivers"]
    return []
