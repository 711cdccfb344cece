"""A scripted hour at 60 times the speed: the simulator, an exporter that is stopped for a while, and Prometheus.

A second target of the same job refuses connections, so that the panels about failing exporters have data.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import prometheus
from boards import ROOT

FREEZE_SECONDS = 3.0  # how long the exporter is stopped, which it must measure as an interruption
SCRAPE = """\
global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}
rule_files: {rules}
scrape_configs:
  - job_name: azure-scheduled-events
    static_configs: [{{ targets: ["127.0.0.1:{port}", "127.0.0.1:{closed}"] }}]
"""


def rules_without_intervals(directory: Path) -> str:
    """The rule files, all evaluated every second: the hour takes a minute, which is the interval of some groups."""
    for path in (path for folder in ("alerts", "dashboards") for path in (ROOT / folder).glob("*.rules.yml")):
        text = re.sub(r"^    interval: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (directory / path.name).write_text(text, encoding="utf-8")
    return json.dumps([str(directory / "*.rules.yml")])


def binary() -> str:
    if chosen := os.environ.get("EXPORTER"):
        return chosen
    built = ROOT / "target" / "debug" / "azure-scheduled-events-exporter"
    if not built.exists():
        subprocess.run([prometheus.need("cargo", "see https://rustup.rs"), "build", "--locked"], cwd=ROOT, check=True)
    return str(built)


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(60)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
        return response.read().decode()


def _has(port: int, name: str, *labels: str) -> Callable[[], bool]:
    return lambda: any(
        line.startswith(name + "{") and line.endswith(" 1") and all(label in line for label in labels)
        for line in _metrics(port).splitlines()
    )


@contextmanager
def run_scenario(directory: Path) -> Iterator[tuple[prometheus.Api, dict[str, str], float, float]]:
    """Yields the Prometheus API, the VM dashboard's variables, and the start and end of the hour."""
    program = binary()
    scenario = Path(__file__).with_name("hour.json")
    listen = "--web.listen-address=127.0.0.1:0"
    simulator = [program, "simulate", listen, f"--scenario={scenario}", "--speed=60"]
    with ExitStack() as stack:
        began = time.time()
        azure = stack.enter_context(running(simulator, directory / "simulator.log"))
        imds_url = f"--imds.url=http://127.0.0.1:{prometheus.listening_port(azure)}"
        exporter = [program, imds_url, listen, "--imds.poll-interval=250ms"]
        exporter += ["--approve.user-events", "--approve.delay=1s"]
        exporter += ["--imds.api-version=2025-01-01"]  # older ones have no advisory of a rebalance recommendation
        process = stack.enter_context(running(exporter, directory / "exporter.log"))
        port = prometheus.listening_port(process)
        closed = stack.enter_context(prometheus.closed_port())
        api = stack.enter_context(
            prometheus.serving(
                directory, SCRAPE.format(port=port, closed=closed, rules=rules_without_intervals(directory))
            )
        )
        started = _has(port, "azure_scheduled_event_status", 'event_type="Freeze"', 'event_status="Started"')
        prometheus.wait_for("the first freeze to start", started)
        process.send_signal(signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        process.send_signal(signal.SIGCONT)
        prometheus.wait_for("the freeze to end", lambda: not started())
        prometheus.wait_for("the second freeze to start", started)
        prometheus.wait_for(
            "the last reboot to be announced",
            _has(port, "azure_scheduled_event_status", 'event_type="Reboot"', 'event_source="User"'),
        )
        complete = (
            'count(azure_scheduled_event_info{event_source="User"}) and count(azure_scheduled_event:vm) and sum(azure_scheduled_event_observed_interruption_seconds) > 1 '
            "and sum(increase(azure_scheduled_events_imds_request_failures_total[5m])) > 0 "
            'and sum(azure_scheduled_events_approvals_total{result="approved"}) > 0'
        )
        prometheus.wait_for("Prometheus to scrape all expected series", lambda: api.instant(complete, time.time()))
        ended = time.time()
        yield api, {"instance": f"127.0.0.1:{port}"}, began, ended
