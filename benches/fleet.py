#!/usr/bin/env python3
"""Writes samples of a large fleet of exporters as OpenMetrics text.

    benches/fleet.py --vms 10000 --events 500 > fleet.om
    promtool tsdb create-blocks-from openmetrics fleet.om DATA

    benches/fleet.py --vms 10000 --events 500 --serve PORT

Prometheus serves the resulting blocks, and `benches/dashboards.sh` measures dashboards against it. With `--serve`,
Prometheus scrapes the samples, and has them in memory as those of a real fleet (`benches/rules.sh`). Each path `/PART`
is a target of 500 VMs. Each of its scrapes gets the samples of the next time, and those after the last time get none.
`/left` is the number of scrapes until then. The same arguments give the same fleet: `--seed` sets the random data, `--end` sets the time.

Each VM has the series of an exporter without events: `up` and all series that a rule or a dashboard reads, including
zeros. Each event has the per-event series of each VM that it names. Most events name one VM, some name 5 or 20 VMs of a
scale set, a few name 100. Half of the events are due within the next hour, a quarter have started, a tenth have ended
and are still exposed, and the rest are days ahead. Histograms have fewer buckets than those of the exporter, and exist
only on VMs with an event. `--past` adds ended events of the last 30 days, with the per-event series and with what the
rules record for the history dashboard (dashboards/dashboards.rules.yml): those rules would have to be evaluated over 30
days.
"""

import argparse
import random
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
OUTCOMES = ("completed", "cancelled", "unknown")
FAILURES = (
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
)
DROPPED = (
    "age",
    "rejected",
    "spool_full",
    "too_large",
    "unreadable",
)
WHAT = {
    "Freeze": "the VM is paused; memory and disks are kept, connections may break",
    "Reboot": "the VM restarts; what is in memory is lost",
    "Redeploy": "the VM moves to another host; what is in memory and on the temporary disk is lost",
    "Preempt": "the Spot VM is evicted",
    "Terminate": "the VM is deleted",
}
LOCATIONS = ("westeurope", "northeurope", "eastus", "eastus2", "southeastasia")
SIZES = ("Standard_D4s_v5", "Standard_D8s_v5", "Standard_E16ds_v5", "Standard_F4s_v2")
SCALE_SET = 50  # VMs of one scale set
PART = 500  # VMs of one target
BUCKETS = ("1.0", "10.0", "60.0", "600.0", "3600.0", "+Inf")


def arguments():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--vms", type=int, default=10_000)
    cli.add_argument("--events", type=int, default=500)
    cli.add_argument("--past", type=int, default=0, help="ended events of the last 30 days")
    cli.add_argument("--minutes", type=int, default=20, help="period of the samples in minutes")
    cli.add_argument("--step", type=int, default=60, help="seconds between samples of a series")
    cli.add_argument("--end", type=int, default=None, help="Unix time of the last sample (default: now)")
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--serve", type=int, metavar="PORT", help="serve the samples on loopback instead of writing them")
    cli.add_argument("--job", default="azure-scheduled-events")
    options = cli.parse_args()
    if options.serve and options.past:
        cli.error("--serve: Prometheus does not accept samples of the past month")
    return options


class Vm:
    def __init__(self, number, job):
        self.number = number
        self.scale_set = f"fleet{number // SCALE_SET:03d}"
        self.name = f"{self.scale_set}_{number % SCALE_SET}"
        self.instance = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:10169"
        self.target = f'instance="{self.instance}",job="{job}"'
        self.location = LOCATIONS[number // SCALE_SET % len(LOCATIONS)]
        self.size = SIZES[number // SCALE_SET % len(SIZES)]


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
        more = len(self.vms) - 1
        names = self.vms[0].name + (f" and {more} more VM{'s' * (more > 1)}" if more else "")
        when = time.strftime("%H:%M", time.gmtime(self.not_before))
        if self.ended:
            summary = f"{self.type} of {names} completed, interrupted for 4s"
        elif self.started:
            summary = f"{self.type} of {names} in progress since {when} UTC"
        else:
            summary = f"{self.type} of {names} at {when} UTC"
        listed = ", ".join(vm.name for vm in self.vms[:10])
        rest = f" and {len(self.vms) - 10} more" if len(self.vms) > 10 else ""
        lines = [
            f"VMs: {listed}{rest} ({len(self.vms)})" if more else f"VM: {listed}",
            (
                f"Where: scale set {self.vms[0].scale_set}, {self.vms[0].location}, resource group"
                f" rg-{self.vms[0].location}, subscription 00000000-0000-4000-8000-000000000000"
            ),
            f"What: {self.type}: {WHAT[self.type]}",
            f"When: {when} UTC",
            "Duration: not announced; usually a few minutes"
            if self.duration is None
            else f"Duration: {self.duration}s announced",
            "Outcome: completed, interrupted for 4s"
            if self.ended
            else "To do: move the load of the VM and save what is in memory before that time",
            f"Source: {self.source}",
            'Azure: \\"Host server is undergoing maintenance.\\"',
            f"Event: {self.id}",
        ]
        return summary, "\\n".join(lines)


class Recording:
    """Writes series, one line per sample. `since` is the time of a series' first sample; all end at the last sample."""

    def __init__(self, out, options, end):
        self.out = out
        count = options.minutes * 60 // options.step
        self.stamps = [end - options.step * i for i in range(count, -1, -1)]

    def constant(self, name, labels, value, since=0):
        head = f"{name}{{{labels}}} {value} "
        self.out.write("".join([f"{head}{t}\n" for t in self.stamps if t >= since]))

    def varying(self, name, labels, value, since=0):
        """A series with changing values: `value` is a function of the sample's Unix time."""
        head = f"{name}{{{labels}}} "
        self.out.write("".join([f"{head}{value(t)} {t}\n" for t in self.stamps if t >= since]))


class Replay(Recording):
    """Keeps the series, and returns the samples of one time after the other in the text format, for each part."""

    def __init__(self, options, end):
        super().__init__(None, options, end)
        self.parts = []
        self.scraped = []
        self.lock = threading.Lock()

    def begin_part(self):
        self.parts.append([])
        self.scraped.append(0)

    def constant(self, name, labels, value, since=0):
        self.varying(name, labels, lambda _: value, since)

    def varying(self, name, labels, value, since=0):
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
        replay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                text = str(replay.left()) if self.path == "/left" else replay.scrape(int(self.path[1:]))
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


PAST = 30 * 86_400
MINUTE = 60


def write_past(out, options, rng, vms, end):
    """Ended events, each with samples from the first sighting until ten minutes after the end."""
    pairs = 0
    for _ in range(options.past):
        event = Event(rng, vms, end)
        event.ended = end - rng.randrange(7_200, PAST)
        event.started = event.not_before = event.ended - rng.randrange(60, 600)
        event.first_seen = event.not_before - 900
        rec = Recording(out, options, event.ended + 600)
        rec.stamps = list(range(event.first_seen, event.ended + 601, options.step))
        for vm in event.vms:
            write_event(rec, vm, event)
        write_history(out, options, event)
        pairs += len(event.vms)
    if options.past:
        write_totals(out, options, end)
    return pairs


def write_history(out, options, event):
    """What the rules record of a past event, once a minute until fifteen minutes after its last sample."""
    rec = Recording(out, options, 0)
    rec.stamps = range(event.first_seen - event.first_seen % MINUTE + MINUTE, event.ended + 1500, MINUTE)
    labels = f'event_id="{event.id}",event_type="{event.type}",event_source="{event.source}"'
    values = {
        "first_seen_timestamp_seconds:min": event.first_seen,
        "notice_seconds:first": event.not_before - event.first_seen,
        "duration_seconds:max": event.duration,
    }
    for name, value in values.items():
        if value is not None:
            rec.constant(f"event:azure_scheduled_event_{name}", labels, value)
    ended = f'{labels},outcome="completed"'
    rec.constant("event:azure_scheduled_event_ended_timestamp_seconds:max", ended, event.ended, event.ended)
    for vm in event.vms:
        names = f'vm_name="{vm.name}",vm_scale_set="{vm.scale_set}"'
        rec.varying(
            "instance_event:azure_scheduled_event_observed_interruption_seconds:max",
            f'{vm.target},event_id="{event.id}",event_type="{event.type}",{names}',
            lambda now: 4 if now > event.ended else 0 if now > event.started else -1,
        )


def write_totals(out, options, end):
    rec = Recording(out, options, 0)
    rec.stamps = list(range(end - PAST, end - 7_200, MINUTE))
    rec.constant("cluster:azure_scheduled_event_history:since", "", end - PAST)
    rec.stamps = rec.stamps[::5]
    for kind in TYPES[:3]:
        labels = f'job="{options.job}",event_type="{kind}",result="approved"'
        rec.varying("job:azure_scheduled_events_approvals:increase15m", labels, lambda now: now % 7)


def write_vm(rec, vm, rng, started_at):
    t = vm.target
    healthy = rng.random() > 0.005
    rec.constant("up", t, 1 if rng.random() > 0.002 else 0)
    rec.constant("process_start_time_seconds", t, started_at)
    rec.constant("process_resident_memory_bytes", t, 5_200_000 + vm.number)
    rec.varying("process_cpu_seconds_total", t, lambda now: (now - started_at) // 7200)
    rec.constant(
        "azure_scheduled_events_exporter_build_info", f'{t},version="0.1.0",revision="0000000",rustc="1.90.0"', 1
    )
    rec.constant(
        "azure_scheduled_events_vm_info",
        f'{t},vm_name="{vm.name}",vm_id="00000000-0000-4000-8000-{vm.number:012x}",vm_scale_set="{vm.scale_set}",'
        f'vm_size="{vm.size}",location="{vm.location}",resource_group="rg-{vm.location}",'
        f'subscription_id="00000000-0000-4000-8000-000000000000"',
        1,
    )
    rec.constant("azure_scheduled_events_up", t, int(healthy))
    age = 1 if healthy else 400
    rec.varying("azure_scheduled_events_last_success_timestamp_seconds", t, lambda now: now - age)
    rec.constant("azure_scheduled_events_warming_up", t, 0)
    rec.constant("azure_scheduled_events_document_incarnation", t, rng.randrange(1, 300))
    rec.varying("azure_scheduled_events_imds_requests_total", t, lambda now: now - started_at)
    for reason in FAILURES:
        rec.constant("azure_scheduled_events_imds_request_failures_total", f'{t},reason="{reason}"', 0)
    for kind in TYPES:
        for outcome in OUTCOMES:
            rec.constant("azure_scheduled_events_ended_total", f'{t},event_type="{kind}",outcome="{outcome}"', 0)
        for scope in ("self", "other"):
            rec.constant("azure_scheduled_events_observed_total", f'{t},event_type="{kind}",scope="{scope}"', 0)
    for kind in TYPES[:3]:
        for result in ("approved", "failed", "dry_run"):
            rec.constant("azure_scheduled_events_approvals_total", f'{t},event_type="{kind}",result="{result}"', 0)
    for reason in DROPPED:
        rec.constant("azure_scheduled_events_spans_dropped_total", f'{t},reason="{reason}"', 0)
        rec.constant("azure_scheduled_events_log_records_dropped_total", f'{t},reason="{reason}"', 0)
    for name in (
        "azure_scheduled_events_spans_exported_total",
        "azure_scheduled_events_spans_spooled",
        "azure_scheduled_events_log_records_exported_total",
        "azure_scheduled_events_log_records_spooled",
        "azure_scheduled_events_state_write_failures_total",
        "azure_scheduled_events_alert_pushes_total",
        "azure_scheduled_events_alert_push_failures_total",
    ):
        rec.constant(name, t, 0)


def write_pending(rec, vm, events):
    pending = {}
    for event in events:
        if not event.ended:
            pending[event.type] = pending.get(event.type, 0) + 1
    for kind in TYPES:
        rec.constant(
            "azure_scheduled_events_pending", f'{vm.target},event_type="{kind}",scope="self"', pending.get(kind, 0)
        )
        rec.constant("azure_scheduled_events_pending", f'{vm.target},event_type="{kind}",scope="other"', 0)


def write_event(rec, vm, event):
    since = event.first_seen
    write_decisions(rec, vm, event)
    labels = f'{vm.target},event_id="{event.id}",event_type="{event.type}",event_source="{event.source}",scope="self"'
    text = "Host server is undergoing maintenance." if event.type == "Freeze" else ""
    rec.constant(
        "azure_scheduled_event_info", f'{labels},resource_type="VirtualMachine",description="{text}"', 1, since
    )
    status = event.status()
    for name in ("Scheduled", "Started", "Ended"):
        rec.constant("azure_scheduled_event_status", f'{labels},event_status="{name}"', int(name == status), since)
    rec.constant("azure_scheduled_event_not_before_timestamp_seconds", labels, event.not_before, since)
    if not event.ended:
        countdown = (lambda t: 0) if event.started else (lambda t: event.not_before - t)
        rec.varying("azure_scheduled_event_not_before_countdown_seconds", labels, countdown, since)
    if event.duration is not None:
        rec.constant("azure_scheduled_event_duration_seconds", labels, event.duration, since)
    rec.constant("azure_scheduled_event_resources", labels, len(event.vms), since)
    rec.constant("azure_scheduled_event_first_seen_timestamp_seconds", labels, event.first_seen, since)
    if event.started:
        rec.constant("azure_scheduled_event_started_timestamp_seconds", labels, event.started, event.started)
    if event.ended:
        rec.constant(
            "azure_scheduled_event_ended_timestamp_seconds", f'{labels},outcome="completed"', event.ended, event.ended
        )
        rec.constant("azure_scheduled_event_observed_interruption_seconds", labels, 4, event.ended)


def write_decisions(rec, vm, event):
    """The alerts and words that the exporter gives the event, as they are at the last sample."""
    head = f'{vm.target},event_id="{event.id}"'
    kind = f'event_type="{event.type}",event_source="{event.source}"'
    for name, severity, value in event.alerts(rec.stamps[-1]):
        labels = f'{head},{kind},alert="AzureScheduledEvent{name}",severity="{severity}"'
        rec.constant("azure_scheduled_event_alert", labels, value, event.first_seen)
    ended = event.ended or float("inf")
    rec.varying("azure_scheduled_event_open", head, lambda now: int(now < ended), event.first_seen)
    summary, description = event.message()
    since = event.ended or event.started or event.first_seen
    labels = f'{head},summary="{summary}",description="{description}"'
    rec.constant("azure_scheduled_event_message", labels, since, event.first_seen)


def write_histograms(rec, vm, event, since):
    for name, value in (("notice", event.not_before - event.first_seen), ("impact", 300), ("observed_interruption", 4)):
        family = f"azure_scheduled_events_{name}_seconds"
        labels = f'{vm.target},event_type="{event.type}"'
        for bound in BUCKETS:
            rec.constant(f"{family}_bucket", f'{labels},le="{bound}"', int(value <= float(bound)), since)
        rec.constant(f"{family}_sum", labels, value, since)
        rec.constant(f"{family}_count", labels, 1, since)


def main():
    options = arguments()
    rng = random.Random(options.seed)
    end = options.end or int(time.time())
    vms = [Vm(number, options.job) for number in range(options.vms)]
    events = [Event(rng, vms, end) for _ in range(options.events)]
    by_vm = {}
    for event in events:
        for vm in event.vms:
            by_vm.setdefault(vm.number, []).append(event)
    rec = Replay(options, end) if options.serve else Recording(sys.stdout, options, end)
    for vm in vms:
        if options.serve and vm.number % PART == 0:
            rec.begin_part()
        write_vm(rec, vm, rng, end - 90_000)
        vm_events = by_vm.get(vm.number, [])
        write_pending(rec, vm, vm_events)
        for event in vm_events:
            write_event(rec, vm, event)
        for event in {event.type: event for event in vm_events}.values():  # one histogram per type and VM
            write_histograms(rec, vm, event, event.first_seen)
    past = write_past(sys.stdout, options, rng, vms, end)
    if not options.serve:
        sys.stdout.write("# EOF\n")
    pairs = sum(len(event.vms) for event in events)
    print(
        f"{len(vms)} VMs, {len(events)} events, {pairs} pairs of event and affected VM; {options.past} past events, {past} pairs",
        file=sys.stderr,
    )
    if options.serve:
        rec.serve(options.serve)


if __name__ == "__main__":
    main()
