#!/usr/bin/env python3
"""Serves the samples of a large fleet of exporters to Prometheus: benches/fleet.py PORT --vms 10000 --events 500.

Each path `/PART` is a target of 500 VMs. Each of its scrapes gets the samples of the next minute, and those after the last
minute get none; `/left` is the number of scrapes until then. So Prometheus has them in memory as those of a real fleet
(`benches/rules.sh`). The same arguments give the same fleet: `--seed` sets the random data, `--end` the time.

Each VM has the series that a rule reads, including zeros. Each event has the per-event series of each VM that
it names. Most events name one VM, some name 5 or 20 VMs of a scale set, a few name 100. Half of the events are due within
the next hour, a quarter have started, a tenth have ended and are still exposed, and the rest are days ahead.
"""

import argparse
import random
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
FAILURES = [
    "connect",
    "timeout",
    "tls",
    "redirect",
    "status_4xx",
    "gone",
    "throttled",
    "status_5xx",
    "body",
    "json",
    "shape",
]
DROPPED = ("rejected", "spool_full", "too_large", "unreadable")
LOCATIONS = ("westeurope", "northeurope", "eastus", "eastus2", "southeastasia")
SCALE_SET = 50  # VMs of one scale set
PART = 500  # VMs of one target


def arguments():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("port", type=int)
    cli.add_argument("--vms", type=int, default=10_000)
    cli.add_argument("--events", type=int, default=500)
    cli.add_argument("--minutes", type=int, default=20, help="period of the samples in minutes")
    cli.add_argument("--end", type=int, default=None, help="Unix time of the last sample (default: now)")
    cli.add_argument("--seed", type=int, default=1)
    return cli.parse_args()


class Vm:
    def __init__(self, number):
        self.number = number
        self.scale_set = f"fleet{number // SCALE_SET:03d}"
        self.name = f"{self.scale_set}_{number % SCALE_SET}"
        self.instance = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:10169"
        self.target = f'instance="{self.instance}",job="azure-scheduled-events"'
        self.location = LOCATIONS[number // SCALE_SET % len(LOCATIONS)]


class Event:
    """An event, with its status at the last sample."""

    def __init__(self, rng, vms, end):
        self.id = str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper()
        self.type = rng.choices(TYPES, (50, 20, 12, 10, 8))[0]
        self.source = "User" if self.type == "Terminate" or rng.random() < 0.1 else "Platform"
        self.duration = rng.choice((0, 5, 9, 30)) if self.type == "Freeze" and rng.random() < 0.8 else None
        size = rng.choices((1, 5, 20, 100), (75, 15, 9, 1))[0]
        first = rng.randrange(len(vms))
        # Azure announces an event to one placement group, so all its VMs are in one scale set.
        self.vms = [vm for vm in vms[first : first + size] if vm.scale_set == vms[first].scale_set]
        self.started = self.ended = None
        stage = rng.random()
        if stage < 0.5:
            self.not_before = end + rng.randrange(30, 3600)
        elif stage < 0.75:
            self.started = end - rng.randrange(1, 600)
            self.not_before = self.started
        elif stage < 0.85:
            self.ended = end - rng.randrange(1, 540)
            self.started = self.ended - rng.randrange(60, 600)
            self.not_before = self.started
        else:
            self.not_before = end + rng.randrange(86_400, 7 * 86_400)
        notice = 900 if self.not_before < end + 86_400 else 7 * 86_400
        # Events with more than the minimum notice are first seen within the last 15 minutes.
        self.first_seen = min(self.not_before - notice, end - rng.randrange(30, 900))

    def status(self):
        return "Ended" if self.ended else "Started" if self.started else "Scheduled"

    def alerts(self, end):
        """The alerts that the exporter gives the event, with severity and value, at the last sample."""
        notice = self.not_before - self.first_seen
        is_due = self.started is not None or self.not_before - end < 3_600
        is_predicted = notice >= 86_400
        is_short = self.duration is not None and self.duration < 10
        is_restart = self.type in ("Reboot", "Redeploy")
        in_progress = self.started is not None or self.not_before - end < 300
        if self.ended:
            in_progress = end - self.ended < 300
        if self.type == "Preempt":
            yield "Preempt", "critical", 1
        elif self.type == "Terminate":
            yield "Terminate", "warning", 1
        elif is_restart and self.source == "User":
            yield "UserInitiatedWaiting", "warning", int(self.started is None)
        elif is_restart and is_due:
            yield self.type, "critical", 1
        elif self.type == "Freeze" and (is_due or self.duration == 0):
            yield "Freeze", "info" if is_short else "warning", 1
        if is_restart and self.source != "User" and 3_600 <= notice < 86_400:
            yield self.type, "warning", 1
        if is_predicted and (is_restart or self.type == "Freeze") and self.source != "User" and self.duration != 0:
            yield "DegradedHardware", "warning", 1
        if not (self.type == "Freeze" and is_short) and (self.source != "User" or self.started):
            yield "InProgress", "info", int(in_progress)

    def message(self):
        """Summary and description, about as long as those of the exporter."""
        summary = f"{self.type} of {self.vms[0].name} {'in progress since' if self.started else 'at'} 12:34 UTC"
        names = ", ".join(vm.name for vm in self.vms[:10])
        return summary, f"VMs: {names}\\n{'Where, what, when, duration, what to do. ' * 10}\\nEvent: {self.id}"


class Fleet:
    """The series of all VMs, and the samples of one minute after the other in the text format, for each part."""

    def __init__(self, minutes, end):
        self.stamps = [end - 60 * i for i in range(minutes, -1, -1)]
        self.parts = []
        self.scraped = []
        self.lock = threading.Lock()

    def begin_part(self):
        self.parts.append([])
        self.scraped.append(0)

    def constant(self, name, labels, value, since=0):
        """A series from its first sample at `since` to the last one of all."""
        self.varying(name, labels, lambda _: value, since)

    def varying(self, name, labels, value, since=0):
        """A series with changing values: `value` is a function of the sample's Unix time."""
        self.parts[-1].append((f"{name}{{{labels}}}", value, since))

    def scrape(self, part):
        with self.lock:
            step = self.scraped[part]
            self.scraped[part] += 1
        if step >= len(self.stamps):
            return ""
        t = self.stamps[step]
        return "".join([f"{head} {value(t)} {t}000\n" for head, value, since in self.parts[part] if t >= since])

    def left(self):
        with self.lock:
            return sum(max(len(self.stamps) - count, 0) for count in self.scraped)

    def serve(self, port):
        fleet = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                text = str(fleet.left()) if self.path == "/left" else fleet.scrape(int(self.path[1:]))
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def write_vm(fleet, vm, rng):
    """The series that a rule reads."""
    t = vm.target
    healthy = rng.random() > 0.005
    fleet.constant("up", t, 1 if rng.random() > 0.002 else 0)
    fleet.constant(
        "azure_scheduled_events_vm_info",
        f'{t},vm_name="{vm.name}",vm_id="00000000-0000-4000-8000-{vm.number:012x}",vm_scale_set="{vm.scale_set}",'
        f'vm_size="Standard_D4s_v5",location="{vm.location}",resource_group="rg-{vm.location}",'
        f'subscription_id="00000000-0000-4000-8000-000000000000"',
        1,
    )
    fleet.constant("azure_scheduled_events_up", t, int(healthy))
    age = 1 if healthy else 400
    fleet.varying("azure_scheduled_events_last_success_timestamp_seconds", t, lambda now: now - age)
    for reason in FAILURES:
        fleet.constant("azure_scheduled_events_imds_request_failures_total", f'{t},reason="{reason}"', 0)
    for kind in TYPES[:3]:
        for result in ("approved", "failed", "dry_run"):
            fleet.constant("azure_scheduled_events_approvals_total", f'{t},event_type="{kind}",result="{result}"', 0)
    for signal in ("spans", "log_records"):
        for reason in DROPPED:
            fleet.constant(f"azure_scheduled_events_{signal}_dropped_total", f'{t},reason="{reason}"', 0)
        fleet.constant(f"azure_scheduled_events_{signal}_spooled", t, 0)
    for name in ("warming_up", "state_write_failures_total", "alert_push_failures_total"):
        fleet.constant(f"azure_scheduled_events_{name}", t, 0)


def write_event(fleet, vm, event):
    since = event.first_seen
    write_decisions(fleet, vm, event)
    labels = f'{vm.target},event_id="{event.id}",event_type="{event.type}",event_source="{event.source}",scope="self"'
    text = "Host server is undergoing maintenance." if event.type == "Freeze" else ""
    fleet.constant(
        "azure_scheduled_event_info", f'{labels},resource_type="VirtualMachine",description="{text}"', 1, since
    )
    status = event.status()
    for name in ("Scheduled", "Started", "Ended"):
        fleet.constant("azure_scheduled_event_status", f'{labels},event_status="{name}"', int(name == status), since)
    fleet.constant("azure_scheduled_event_not_before_timestamp_seconds", labels, event.not_before, since)
    if not event.ended:
        countdown = (lambda t: 0) if event.started else (lambda t: event.not_before - t)
        fleet.varying("azure_scheduled_event_not_before_countdown_seconds", labels, countdown, since)
    if event.duration is not None:
        fleet.constant("azure_scheduled_event_duration_seconds", labels, event.duration, since)
    fleet.constant("azure_scheduled_event_resources", labels, len(event.vms), since)
    fleet.constant("azure_scheduled_event_first_seen_timestamp_seconds", labels, event.first_seen, since)
    if event.started:
        fleet.constant("azure_scheduled_event_started_timestamp_seconds", labels, event.started, event.started)
    if event.ended:
        fleet.constant(
            "azure_scheduled_event_ended_timestamp_seconds", f'{labels},outcome="completed"', event.ended, event.ended
        )
        fleet.constant("azure_scheduled_event_observed_interruption_seconds", labels, 4, event.ended)


def write_decisions(fleet, vm, event):
    """The alerts and words that the exporter gives the event, as they are at the last sample."""
    head = f'{vm.target},event_id="{event.id}"'
    kind = f'event_type="{event.type}",event_source="{event.source}"'
    for name, severity, value in event.alerts(fleet.stamps[-1]):
        labels = f'{head},{kind},alert="AzureScheduledEvent{name}",severity="{severity}"'
        fleet.constant("azure_scheduled_event_alert", labels, value, event.first_seen)
    ended = event.ended or float("inf")
    fleet.varying("azure_scheduled_event_open", head, lambda now: int(now < ended), event.first_seen)
    summary, description = event.message()
    since = event.ended or event.started or event.first_seen
    labels = f'{head},summary="{summary}",description="{description}"'
    fleet.constant("azure_scheduled_event_message", labels, since, event.first_seen)


def main():
    options = arguments()
    rng = random.Random(options.seed)
    end = options.end or int(time.time())
    vms = [Vm(number) for number in range(options.vms)]
    events = [Event(rng, vms, end) for _ in range(options.events)]
    fleet = Fleet(options.minutes, end)
    by_vm = {}
    for event in events:
        for vm in event.vms:
            by_vm.setdefault(vm.number, []).append(event)
    for vm in vms:
        if vm.number % PART == 0:
            fleet.begin_part()
        write_vm(fleet, vm, rng)
        for event in by_vm.get(vm.number, []):
            write_event(fleet, vm, event)
    pairs = sum(len(event.vms) for event in events)
    print(f"{len(vms)} VMs, {len(events)} events, {pairs} pairs of event and affected VM", file=sys.stderr)
    fleet.serve(options.port)


if __name__ == "__main__":
    main()
