#!/usr/bin/env python3
"""Measures the time from the announcement of a Preempt to the webhook notification that pages a person.

    benches/paging.py                     20 announcements for each path, all paths in parallel, about 5 minutes
    RUNS=40 benches/paging.py push 5s     only these paths of push, 5s, 15s, defaults
    EXPORTER=PATH benches/paging.py       another binary (default: target/release)

Each path has its own IMDS simulator, exporter, Prometheus and Alertmanager (Debian's), all on loopback. Events are
announced at random times. Each event is a separate group in Alertmanager, so the measurements are independent. The
measured time is from before the request that announces the event to the arrival of the notification. The routes are
those of alerts/alertmanager.example.yml. For `defaults`, group_wait and all intervals are the default values of
Prometheus and Alertmanager. The exporter polls at its default interval.
"""

import http.server
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = int(os.environ.get("RUNS", "20"))
# Scrape and evaluation interval, interval between announcements, and timeout for all notifications, in seconds.
PATHS = {
    "push": (None, 2, 30),
    "5s": (5, 2, 60),
    "15s": (15, 4, 90),
    "defaults": (60, 7, 240),
}


def need(name, hint):
    path = shutil.which(name)
    if not path:
        sys.exit(f"paging.py: {name} not found; {hint}")
    return path


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def wait_for(what, is_ready, timeout=90):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            if is_ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"paging.py: timed out after {timeout} s waiting for {what}")


class Webhook:
    """Records the time of the first notification for each announcement."""

    def __init__(self):
        self.received = {}
        received = self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                at = time.monotonic()
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in message["alerts"]:
                    description = alert["annotations"].get("description", "")
                    if "announcement " in description and alert["labels"]["alertname"] == "AzureScheduledEventPreempt":
                        received.setdefault(int(description.split("announcement ")[1].split()[0]), at)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def alertmanager_config(path, webhook):
    if path == "defaults":
        routes = "route: { receiver: all, group_by: [alertname, event_id] }\n"
        receivers = ["all"]
    else:
        text = (ROOT / "alerts/alertmanager.example.yml").read_text()
        routes = text.split("\nreceivers:\n")[0]
        receivers = ["mail", "chat", "pager-and-chat", "automation"]
    lines = [f"  - name: {name}\n    webhook_configs: [{{ url: '{webhook}' }}]\n" for name in receivers]
    return routes + "\nreceivers:\n  - name: nobody\n" + "".join(lines)


class AlertPath:
    def __init__(self, name, exporter, work):
        self.name, self.work, self.processes = name, work / name, []
        self.interval, self.pause, self.timeout = PATHS[name]
        self.work.mkdir()
        self.webhook = Webhook()
        simulator, vm, manager, prometheus = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.simulator = f"http://{simulator}"
        config = self.work / "alertmanager.yml"
        config.write_text(alertmanager_config(name, self.webhook.url))
        self.start(
            need("prometheus-alertmanager", "apt-get install prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={self.work}/alertmanager",
            f"--web.listen-address={manager}",
            "--cluster.listen-address=",
        )
        self.start(exporter, "simulate", f"--web.listen-address={simulator}", "--vm.name=web_0")
        wait_for("the simulator", lambda: get(self.simulator))
        push = [f"--alertmanager.url=http://{manager}"] if name == "push" else []
        self.start(exporter, f"--web.listen-address={vm}", f"--imds.url={self.simulator}", *push)
        wait_for("the exporter", lambda: "\nazure_scheduled_events_up 1" in get(f"http://{vm}/metrics"))
        wait_for("Alertmanager", lambda: get(f"http://{manager}/-/ready"))
        if self.interval:
            config = self.work / "prometheus.yml"
            every = f"scrape_interval: {self.interval}s, evaluation_interval: {self.interval}s"
            intervals = "" if name == "defaults" else f"global: {{ {every} }}\n"
            config.write_text(
                f"{intervals}rule_files: ['{ROOT}/alerts/*.rules.yml']\nscrape_configs:\n"
                f"- job_name: azure-scheduled-events\n  static_configs: [{{ targets: ['{vm}'] }}]\n"
                f"alerting: {{ alertmanagers: [{{ static_configs: [{{ targets: ['{manager}'] }}] }}] }}\n"
            )
            self.start(
                need("prometheus", "apt-get install prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={self.work}/prometheus",
                f"--web.listen-address={prometheus}",
            )
            query = f"http://{prometheus}/api/v1/query?query=up"
            wait_for("a scrape", lambda: '"1"' in get(query), timeout=self.timeout)

    def start(self, *command):
        with (self.work / f"{len(self.processes)}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def measure(self):
        announced = {}
        for number in range(RUNS):
            time.sleep(random.uniform(0.5, 1.5) * self.pause)
            event = {
                "event_type": "Preempt",
                "resources": ["web_0"],
                "notice": "1h",
                "started_for": "1m",
                "description": f"announcement {number} of {RUNS}",
            }
            body = json.dumps({"scenario": {"events": [event]}}).encode()
            request = urllib.request.Request(
                f"{self.simulator}/simulator/start", body, {"Content-Type": "application/json"}
            )
            announced[number] = time.monotonic()
            urllib.request.urlopen(request, timeout=10).read()
        wait_for(f"all notifications of {self.name}", lambda: len(self.webhook.received) == RUNS, self.timeout)
        self.delays = sorted(self.webhook.received[number] - at for number, at in announced.items())

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def main():
    names = sys.argv[1:] or list(PATHS)
    unknown = [name for name in names if name not in PATHS]
    if unknown:
        sys.exit(f"paging.py: unknown path {unknown[0]}; use one of {', '.join(PATHS)}")
    exporter = os.environ.get("EXPORTER") or str(ROOT / "target/release/azure-scheduled-events-exporter")
    if not Path(exporter).exists():
        sys.exit(f"paging.py: {exporter} not found; run: cargo build --release --locked")
    paths = []
    with tempfile.TemporaryDirectory() as work:
        try:
            for name in names:
                paths.append(AlertPath(name, exporter, Path(work)))
            threads = [threading.Thread(target=path.measure) for path in paths]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for path in paths:
                path.stop()
    load = os.getloadavg()[0]
    print(f"{RUNS} announcements each; load {load:.1f} on {os.cpu_count()} CPUs\n")
    print("| path | median | 95 % | maximum |\n|---|---|---|---|")
    for path in paths:
        if not hasattr(path, "delays"):
            sys.exit(f"paging.py: {path.name}: some announcements caused no notification")
        high = path.delays[int(len(path.delays) * 0.95) - 1]
        print(f"| {path.name} | {statistics.median(path.delays):.2f} s | {high:.2f} s | {path.delays[-1]:.2f} s |")


main()
