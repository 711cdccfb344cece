#!/usr/bin/env python3
"""Serves the samples of a large fleet of exporters to Prometheus: benches/fleet.py PORT VMS EVENTS END.

END is the Unix time of the last sample. Each path `/PART` is a target of 500 VMs. Each of its scrapes gets the samples
of the next minute, and those after the last minute get none; `/left` is the number of scrapes until then. So Prometheus
has them in memory as those of a real fleet (`benches/rules.sh`). The same arguments give the same fleet.

The series are those that a rule reads, including zeros, of exporters that send spans and log records. Most events name
one VM, some name 5 or 20 VMs of a scale set, a few the whole scale set. Half of the events are due within the next
hour, a quarter have started, a tenth have ended and are still exposed, and the rest are days ahead.
"""

import random
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Of the alert that the exporter gives an event of this type when it is due
SEVERITIES = {"Freeze": "warning", "Reboot": "critical", "Redeploy": "critical", "Preempt": "critical"}
SEVERITIES |= {"Terminate": "warning"}
FAILURES = ("connect", "timeout", "tls", "redirect", "status_4xx", "gone", "throttled", "status_5xx", "body", "json")
FAILURES += ("shape",)
DROPPED = ("rejected", "spool_full", "too_large", "unreadable")
SCALE_SET = 50  # VMs of one scale set
PART = 500  # VMs of one target
MINUTES = 20  # period of the samples
DAY = 86_400


class Event:
    """An event, with its times at the last sample."""

    def __init__(self, rng, vms, end):
        self.id = str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper()
        self.type = rng.choices(list(SEVERITIES), (50, 20, 12, 10, 8))[0]
        size = rng.choices((1, 5, 20, SCALE_SET), (75, 15, 9, 1))[0]
        first = rng.randrange(vms)
        # Azure announces an event to one placement group, so all its VMs are in one scale set.
        self.vms = range(first, min(first + size, first - first % SCALE_SET + SCALE_SET, vms))
        stage = rng.random()
        self.is_ahead = stage >= 0.85
        self.ended = end - rng.randrange(1, 540) if 0.75 <= stage < 0.85 else None
        self.started = (self.ended or end) - rng.randrange(60, 600) if 0.5 <= stage < 0.85 else None
        self.not_before = self.started or end + rng.randrange(*((DAY, 7 * DAY) if self.is_ahead else (30, 3600)))
        self.first_seen = min(self.not_before - (7 * DAY if self.is_ahead else 900), end - rng.randrange(30, 900))

    def series(self, target):
        """Name and labels, value and first sample of each series."""
        head = f'{target},event_id="{self.id}"'
        kind = f'{head},event_type="{self.type}",event_source="Platform"'
        own = ("DegradedHardware", "warning") if self.is_ahead else (self.type, SEVERITIES[self.type])
        for name, severity, value in ((*own, 1), ("InProgress", "info", int(self.started is not None))):
            labels = f'{kind},alert="AzureScheduledEvent{name}",severity="{severity}"'
            yield f"azure_scheduled_event_alert{{{labels}}}", value, self.first_seen
        ended = self.ended or float("inf")
        yield f"azure_scheduled_event_open{{{head}}}", lambda now: int(now < ended), self.first_seen
        # About as long as the words of the exporter
        summary = f"{self.type} of {len(self.vms)} VMs {'in progress since' if self.started else 'at'} 12:34 UTC"
        description = "Where, what, when, duration, what to do. " * 12 + self.id
        words = f'{head},summary="{summary}",description="{description}"'
        since = self.ended or self.started or self.first_seen
        yield f"azure_scheduled_event_message{{{words}}}", since, self.first_seen
        times = {"first_seen": self.first_seen, "not_before": self.not_before, "started": self.started}
        for name, value in times.items():
            if value:
                since = value if name == "started" else self.first_seen
                yield f'azure_scheduled_event_{name}_timestamp_seconds{{{kind},scope="self"}}', value, since
        if self.ended:
            yield f'azure_scheduled_event_observed_interruption_seconds{{{kind},scope="self"}}', 4, self.ended


def series_of_vm(rng, number, target):
    """Name and labels, and value of each series that a VM has without an event."""
    is_healthy, age = (True, 1) if rng.random() > 0.005 else (False, 400)
    yield f"up{{{target}}}", int(rng.random() > 0.002)
    scale_set = f"fleet{number // SCALE_SET:03d}"
    labels = f'{target},vm_name="{scale_set}_{number % SCALE_SET}",vm_scale_set="{scale_set}"'
    labels += f',vm_id="00000000-0000-4000-8000-{number:012x}",vm_size="Standard_D4s_v5",location="westeurope"'
    labels += ',resource_group="rg-westeurope",subscription_id="00000000-0000-4000-8000-000000000000"'
    yield f"azure_scheduled_events_vm_info{{{labels}}}", 1
    yield f"azure_scheduled_events_up{{{target}}}", int(is_healthy)
    yield f"azure_scheduled_events_last_success_timestamp_seconds{{{target}}}", lambda now: now - age
    zeros = [("warming_up", ""), ("state_write_failures_total", ""), ("alert_push_failures_total", "")]
    zeros += [("imds_request_failures_total", f',reason="{reason}"') for reason in FAILURES]
    for kind in ("Freeze", "Reboot", "Redeploy"):
        for result in ("approved", "failed", "dry_run"):
            zeros.append(("approvals_total", f',event_type="{kind}",result="{result}"'))
    for signal in ("spans", "log_records"):
        zeros.append((f"{signal}_spooled", ""))
        zeros += [(f"{signal}_dropped_total", f',reason="{reason}"') for reason in DROPPED]
    for name, labels in zeros:
        yield f"azure_scheduled_events_{name}{{{target}{labels}}}", 0


class Fleet:
    """The samples of one minute after the other in the text format, for each part."""

    def __init__(self, vms, number_of_events, end):
        rng = random.Random(1)
        events = [Event(rng, vms, end) for _ in range(number_of_events)]
        self.stamps = range(end - 60 * MINUTES, end + 1, 60)
        self.parts = [[] for _ in range(0, vms, PART)]
        self.scraped = [0] * len(self.parts)
        self.lock = threading.Lock()
        targets = [
            f'instance="10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:10169",job="azure-scheduled-events"'
            for number in range(vms)
        ]
        for number, target in enumerate(targets):
            self.parts[number // PART] += ((*one, 0) for one in series_of_vm(rng, number, target))
        for event in events:
            for number in event.vms:
                self.parts[number // PART] += event.series(targets[number])
        pairs = sum(len(event.vms) for event in events)
        print(f"{vms} VMs, {len(events)} events, {pairs} pairs of event and affected VM", file=sys.stderr)

    def scrape(self, part):
        with self.lock:
            step = self.scraped[part]
            self.scraped[part] += 1
        if step >= len(self.stamps):
            return ""
        now = self.stamps[step]
        samples = ((name, value(now) if callable(value) else value, since) for name, value, since in self.parts[part])
        return "".join(f"{name} {value} {now}000\n" for name, value, since in samples if now >= since)

    def left(self):
        with self.lock:
            return sum(max(len(self.stamps) - count, 0) for count in self.scraped)


def main():
    port, *size = map(int, sys.argv[1:])
    fleet = Fleet(*size)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = (str(fleet.left()) if self.path == "/left" else fleet.scrape(int(self.path[1:]))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
