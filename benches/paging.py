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

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "rulers"))

import parts

RELEASE = parts.ROOT / "target/release/azure-scheduled-events-exporter"
parts.EXPORTER = os.environ.get("EXPORTER", str(RELEASE))
RUNS = int(os.environ.get("RUNS", "20"))
# Scrape and evaluation interval, interval between announcements, and timeout for all notifications, in seconds.
PATHS = {
    "push": (None, 2, 30),
    "5s": (5, 2, 60),
    "15s": (15, 4, 90),
    "defaults": (60, 7, 240),
}


def start(stack: parts.Stack, name: str) -> tuple[parts.Azure, parts.Webhook]:
    webhook, program = parts.Webhook(), parts.debian("prometheus-alertmanager")
    config = parts.EXAMPLE
    if name == "defaults":
        config = stack.folder / "defaults.yml"
        config.write_text("\nroute: { receiver: all, group_by: [alertname, event_id] }\nreceivers:\n  - name: all\n")
    manager = parts.alertmanager(stack, program, webhook, wait="", interval="", path=config)
    azure = parts.Azure(stack, "web_0")
    _, vm = azure.exporter("web_0", *([f"--alertmanager.url=http://{manager}"] if name == "push" else []))
    if interval := PATHS[name][0]:
        config = {"rule_files": [f"{parts.ALERTS}/*.rules.yml"], "alerting": parts.notifying(manager)}
        if name != "defaults":
            config["global"] = {"scrape_interval": f"{interval}s", "evaluation_interval": f"{interval}s"}
        _, prometheus, _ = parts.start_prometheus(stack, parts.debian("prometheus"), [{"targets": [vm]}], **config)
        parts.wait_for("a scrape", lambda: parts.query(prometheus, "up == 1"))
    return azure, webhook


def measure(name: str, azure: parts.Azure, webhook: parts.Webhook) -> list[float]:
    _, pause, timeout = PATHS[name]
    announced = {}
    for _ in range(RUNS):
        time.sleep(random.uniform(0.5, 1.5) * pause)
        began = time.monotonic()
        announced[azure.play(parts.event("Preempt", "1h", "1m", "web_0"))["Preempt"]] = began
    first: dict[str, float] = {}

    def are_all_notified() -> bool:
        for one in list(webhook.received):
            first.setdefault(one.event, one.at)
        return announced.keys() <= first.keys()

    parts.wait_for(f"all notifications of {name}", are_all_notified, timeout)
    return [first[event] - began for event, began in announced.items()]


def main() -> None:
    names = sys.argv[1:] or list(PATHS)
    if unknown := set(names) - set(PATHS):
        sys.exit(f"unknown path {', '.join(unknown)}; use some of {', '.join(PATHS)}")
    with parts.Stack() as stack:
        started = [start(stack, name) for name in names]
        with ThreadPoolExecutor() as pool:
            delays = list(pool.map(lambda name, path: measure(name, *path), names, started))
    print(f"{RUNS} announcements each; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs\n")
    print("| path | median | maximum |\n|---|---|---|")
    for name, found in zip(names, delays, strict=True):
        print(f"| {name} | {statistics.median(found):.2f} s | {max(found):.2f} s |")


if __name__ == "__main__":
    main()
