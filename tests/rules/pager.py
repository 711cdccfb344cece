"""What a real Alertmanager notifies with the files of alerts/: python3 tests/rules/pager.py ALERTMANAGER [FOLDER].

Each receiver of a configuration is a webhook on loopback here, and the waits are shorter. FOLDER is alerts/ of another
checkout.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent.parent.parent / "alerts"
SHORT = {"group_wait": "1s", "group_interval": "2s"}
DEADLINE = 30
# Longer than the waits below: what has not been notified by then is inhibited.
QUIET = 4
# The page about many VMs does not name them.
NOT_DUE = ("UserInitiatedWaiting", "Stuck", "DegradedHardware", "Terminate", "UnknownType")

failures = []


class Alertmanager:
    def __init__(self, url: str, notified: list[tuple[str, dict]]) -> None:
        self.url = url
        self.notified = notified

    def post(self, *alerts: dict[str, str], is_resolved: bool = False) -> None:
        # Alertmanager ignores an end that is not after the start.
        ends = {"startsAt": "2020-01-01T00:00:00Z", "endsAt": "2020-01-01T00:00:01Z"} if is_resolved else {}
        body = json.dumps([{"labels": labels, **ends} for labels in alerts]).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/api/v2/alerts", body, headers), timeout=5).close()

    def of(self, receiver: str, **labels: str) -> list[dict]:
        """The notifications to a receiver with a firing alert of these labels."""
        return [
            one
            for name, one in list(self.notified)
            if name == receiver
            and any(each["status"] == "firing" and labels.items() <= each["labels"].items() for each in one["alerts"])
        ]


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def expect_soon(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    failures.append(what)


def configuration(path: Path, webhook: str) -> str:
    config = yaml.safe_load(path.read_text())
    config.pop("templates", None)
    routes = [config["route"] | {"group_interval": "2s"}]
    config["route"] = routes[0]
    while routes:
        route = routes.pop()
        route |= {name: short for name, short in SHORT.items() if route.get(name, "0s") != "0s"}
        routes += route.get("routes", [])
    config["receivers"] = [
        {"name": name} | ({} if name == "nobody" else {"webhook_configs": [{"url": f"{webhook}/{name}"}]})
        for name in (receiver["name"] for receiver in config["receivers"])
    ]
    return yaml.safe_dump(config)


@contextmanager
def started(program: str, path: Path) -> Iterator[Alertmanager]:
    notified: list[tuple[str, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            notified.append((self.path[1:], json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        config, log = Path(home, "alertmanager.yml"), Path(home, "log")
        config.write_text(configuration(path, f"http://127.0.0.1:{server.server_port}"))
        options = [f"--config.file={config}", f"--storage.path={home}/data", "--cluster.listen-address="]
        with log.open("w") as output:
            process = subprocess.Popen(
                [program, *options, "--web.listen-address=127.0.0.1:0"], stdout=output, stderr=output
            )
        try:
            yield Alertmanager(address(process, log), notified)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()


def address(process: subprocess.Popen, log: Path) -> str:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"(?i)address=(127\.0\.0\.1:[1-9]\d*)", log.read_text()):
            return f"http://{found[1]}"
        time.sleep(0.05)
    raise SystemExit(f"Alertmanager did not start: {log.read_text()}")


def event(kind: str, severity: str, event_id: str, **labels: str) -> dict[str, str]:
    named = {"alertname": f"AzureScheduledEvent{kind}", "severity": severity, "event_id": event_id}
    return named | {"event_type": kind, "event_source": "Platform"} | labels


def many(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": f"AzureScheduledEvents{name}", "severity": "warning"} | labels


def down(host: str, **labels: str) -> dict[str, str]:
    return {"alertname": "InstanceDown", "severity": "critical", "host": host} | labels


def critical_alerts_reach_the_pager(manager: Alertmanager, name: str) -> None:
    """The alerts about many VMs inhibit warnings of due events in their cluster, and no critical or other alert."""
    cluster = name.lower()
    manager.post(many(name, cluster=cluster, vm_scale_set="spot-batch"))
    expect_soon(lambda: manager.of("pager-and-chat", cluster=cluster), f"{name} does not reach the pager")
    manager.post(
        event("Reboot", "critical", "R1", cluster=cluster),
        event("Freeze", "warning", "F1", cluster=cluster),
        event("Freeze", "warning", "F2", cluster=f"not-{cluster}"),
        *(event(kind, "warning", kind, cluster=cluster) for kind in NOT_DUE),
    )
    expect_soon(lambda: manager.of("pager-and-chat", event_id="R1", cluster=cluster), f"{name} hides a Reboot")
    expect_soon(lambda: manager.of("chat", event_id="F2", cluster=f"not-{cluster}"), f"{name}: another cluster")
    for kind in NOT_DUE:
        expect_soon(lambda kind=kind: manager.of("chat", event_id=kind, cluster=cluster), f"{name} hides {kind}")
    time.sleep(QUIET)
    expect(not manager.of("chat", event_id="F1", cluster=cluster), f"{name} does not inhibit a warning")


def storm_of_evictions(manager: Alertmanager) -> None:
    """25 evictions of a scale set: one page, and a webhook for each to the automation."""
    evictions = [event("Preempt", "critical", f"P{number}", cluster="storm") for number in range(25)]
    manager.post(*evictions[:5])
    manager.post(*evictions[5:], many("ScaleSetEvicted", cluster="storm", vm_scale_set="spot"))
    expect_soon(lambda: len(manager.of("automation", cluster="storm")) == 25, "not one webhook for each eviction")
    time.sleep(QUIET)
    pages = manager.of("pager-and-chat", cluster="storm")
    expect(len(pages) == 1, f"{len(pages)} pages about 25 evictions")
    expect(len(manager.of("automation", cluster="storm")) == 25, "more than one webhook for an eviction")
    expect(bool(manager.of("chat", event_id="P24")), "no message about an eviction")


def inhibition_of_down_alerts(manager: Alertmanager, receiver: str) -> None:
    """A VM's own down alerts are silent during its event, and notified when the inhibition ends."""
    progress = event("InProgress", "info", "E", cluster="c", host="a")
    manager.post(progress)
    manager.post(down("a", cluster="c"), down("b", cluster="c"), down("a", cluster="d"), down("", cluster="c"))
    expect_soon(lambda: manager.of(receiver, host="b"), f"{receiver}: another VM is inhibited")
    expect_soon(lambda: manager.of(receiver, host="a", cluster="d"), f"{receiver}: another cluster is inhibited")
    time.sleep(QUIET)
    expect(not manager.of(receiver, host="a", cluster="c"), f"{receiver}: the down alert of the VM is not inhibited")
    expect(not [one for one in manager.notified if "InProgress" in str(one)], "InProgress is notified")
    manager.post(progress, is_resolved=True)
    expect_soon(lambda: manager.of(receiver, host="a", cluster="c"), f"{receiver}: silent after the inhibition")


def stuck_reaches_the_pager(manager: Alertmanager) -> None:
    """A VM that does not come back is paged while its Reboot fires, and its warning adds nothing."""
    manager.post(event("Reboot", "critical", "S1"), event("Stuck", "warning", "S1"), event("Stuck", "critical", "S1"))
    stuck = "AzureScheduledEventStuck"
    expect_soon(lambda: manager.of("pager-and-chat", alertname=stuck), "Stuck does not reach the pager")
    time.sleep(QUIET)
    expect(
        not manager.of("chat", alertname=stuck, event_id="S1"),
        "the warning of Stuck is notified beside the critical one",
    )


def minimal_configuration(manager: Alertmanager) -> None:
    manager.post(event("Reboot", "critical", "R1"), event("Freeze", "warning", "F1"))
    for event_id in ("R1", "F1"):
        expect_soon(lambda event_id=event_id: manager.of("all", event_id=event_id), f"minimal: no {event_id}")


def main() -> int:
    program, *folder = sys.argv[1:]
    alerts = Path(*folder) if folder else FOLDER
    full, minimal = alerts / "alertmanager.example.yml", FOLDER / "alertmanager.minimal.yml"
    repeated = yaml.safe_load(minimal.read_text())["route"].get("repeat_interval")
    expect(repeated == "96h", f"minimal: an event is notified again after {repeated or 'the default of 4h'}")
    with started(program, full) as example, started(program, minimal) as small, ThreadPoolExecutor() as pool:
        checks = [
            pool.submit(critical_alerts_reach_the_pager, example, "ScaleSetAtRisk"),
            pool.submit(critical_alerts_reach_the_pager, example, "FleetAtRisk"),
            pool.submit(storm_of_evictions, example),
            pool.submit(inhibition_of_down_alerts, example, "mail"),
            pool.submit(stuck_reaches_the_pager, example),
            pool.submit(inhibition_of_down_alerts, small, "all"),
            pool.submit(minimal_configuration, small),
        ]
        for check in checks:
            check.result()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
