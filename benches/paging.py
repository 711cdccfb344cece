#!/usr/bin/env python3
"""How long from Azure's announcement of a Preempt to the webhook that a person is paged by.

    benches/paging.py                     20 announcements for each way, all ways side by side: about 5 minutes
    RUNS=40 benches/paging.py push 5s     these ways only; of push, 15s, 5s, defaults
    EXPORTER=PATH benches/paging.py       another build than target/release

Each way has its own simulated Azure, exporter, Prometheus and Alertmanager (Debian's), all on loopback. Events are
announced at random times and each is a group of its own in Alertmanager, so that one measurement does not touch
another. Measured is from before the request that announces the event to the arrival of the notification. The routes
are those of alerts/alertmanager.example.yml; for `defaults`, group_wait and all intervals are what Prometheus and
Alertmanager have when nothing is said. The exporter polls at its default interval.
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
# Scrape and evaluation interval in seconds, seconds between announcements, worst case of all of it in seconds.
WAYS = {
    "push": (None, 2, 30),
    "5s": (5, 2, 60),
    "15s": (15, 4, 90),
    "defaults": (60, 7, 240),
}


def need(name, mend):
    path = shutil.which(name)
    if not path:
        sys.exit(f"paging.py: no {name}; {mend}")
    return path


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(what, ask, patience=90):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if ask():
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"paging.py: not within {patience} s: {what}")


class Webhook:
    """Takes down when the first notification of each announcement came."""

    def __init__(self):
        self.came = {}
        came = self.came

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                at = time.monotonic()
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in message["alerts"]:
                    said = alert["annotations"].get("description", "")
                    if "announcement " in said and alert["labels"]["alertname"] == "AzureScheduledEventPreempt":
                        came.setdefault(int(said.split("announcement ")[1].split()[0]), at)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def alertmanager_config(way, webhook):
    if way == "defaults":
        routes = "route: { receiver: all, group_by: [alertname, event_id] }\n"
        receivers = ["all"]
    else:
        text = (ROOT / "alerts/alertmanager.example.yml").read_text()
        routes = text.split("\nreceivers:\n")[0]
        receivers = ["mail", "chat", "pager-and-chat"]
    lines = [f"  - name: {name}\n    webhook_configs: [{{ url: '{webhook}' }}]\n" for name in receivers]
    return routes + "\nreceivers:\n  - name: nobody\n" + "".join(lines)


class Way:
    def __init__(self, name, exporter, work):
        self.name, self.work, self.processes = name, work / name, []
        self.interval, self.pause, self.patience = WAYS[name]
        self.work.mkdir()
        self.webhook = Webhook()
        azure, vm, manager, prometheus = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.azure = f"http://{azure}"
        config = self.work / "alertmanager.yml"
        config.write_text(alertmanager_config(name, self.webhook.url))
        self.start(
            need("prometheus-alertmanager", "apt-get install prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={self.work}/alertmanager",
            f"--web.listen-address={manager}",
            "--cluster.listen-address=",
        )
        self.start(exporter, "simulate", f"--web.listen-address={azure}", "--vm.name=web_0")
        until("the simulated Azure", lambda: get(self.azure))
        push = [f"--alertmanager.url=http://{manager}"] if name == "push" else []
        self.start(exporter, f"--web.listen-address={vm}", f"--imds.url={self.azure}", *push)
        until("the exporter", lambda: "\nazure_scheduled_events_up 1" in get(f"http://{vm}/metrics"))
        until("Alertmanager", lambda: get(f"http://{manager}/-/ready"))
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
            until("a scrape", lambda: '"1"' in get(query), patience=self.patience)

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
                f"{self.azure}/simulator/start", body, {"Content-Type": "application/json"}
            )
            announced[number] = time.monotonic()
            urllib.request.urlopen(request, timeout=10).read()
        until(f"all of {self.name}", lambda: len(self.webhook.came) == RUNS, self.patience)
        self.delays = sorted(self.webhook.came[number] - at for number, at in announced.items())

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def main():
    names = sys.argv[1:] or list(WAYS)
    unknown = [name for name in names if name not in WAYS]
    if unknown:
        sys.exit(f"paging.py: {unknown[0]} is no way: use one of {', '.join(WAYS)}")
    exporter = os.environ.get("EXPORTER") or str(ROOT / "target/release/azure-scheduled-events-exporter")
    if not Path(exporter).exists():
        sys.exit(f"paging.py: no {exporter}; run: cargo build --release --locked")
    ways = []
    with tempfile.TemporaryDirectory() as work:
        try:
            for name in names:
                ways.append(Way(name, exporter, Path(work)))
            threads = [threading.Thread(target=way.measure) for way in ways]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for way in ways:
                way.end()
    load = os.getloadavg()[0]
    print(f"{RUNS} announcements each; load {load:.1f} on {os.cpu_count()} CPUs\n")
    print("| way | median | 95 % | maximum |\n|---|---|---|---|")
    for way in ways:
        if not hasattr(way, "delays"):
            sys.exit(f"paging.py: {way.name}: not every announcement was told")
        high = way.delays[int(len(way.delays) * 0.95) - 1]
        print(f"| {way.name} | {statistics.median(way.delays):.2f} s | {high:.2f} s | {way.delays[-1]:.2f} s |")


main()
