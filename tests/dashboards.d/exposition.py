"""Writes the synthetic fleet as OpenMetrics with timestamps, for `promtool tsdb create-blocks-from openmetrics`.

The output has the exporter's metric and label names, series by series, oldest sample first. As in the exporter, per-event
series exist from the first sighting until ten minutes after the end, and counters start at zero.
"""

from __future__ import annotations

import bisect
import zlib
from collections.abc import Callable, Iterable
from typing import Protocol, TextIO

from fleet import ADVISORY_TYPES, APPROVABLE, FOREVER, TYPES, Event, Vm, within

ENDED_RETENTION = 600
REASONS = (
    "body",
    "connect",
    "gone",
    "json",
    "redirect",
    "shape",
    "status_4xx",
    "status_5xx",
    "throttled",
    "timeout",
    "tls",
)
OUTCOMES = ("cancelled", "completed", "unknown")
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Of an exporter's series; the last three are most of them.
PARTS = ("events", "status", "health", "counters", "process", "imds")
Value = Callable[[float], float | None]


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Writer(Protocol):
    def family(self, name: str, kind: str) -> None: ...

    def series(self, name: str, labels: dict[str, str], value: Value, times: Iterable[float]) -> None: ...


class OpenMetrics(Writer):
    """Writes series as text. OpenMetrics requires the samples of a family to be contiguous."""

    def __init__(self, out: TextIO):
        self.out = out
        self.samples = 0

    def family(self, name: str, kind: str) -> None:
        self.out.write(f"# TYPE {name} {kind}\n")

    def series(self, name: str, labels: dict[str, str], value: Value, times: Iterable[float]) -> None:
        head = name + "{" + ",".join(f'{k}="{_quote(v)}"' for k, v in labels.items()) + "}"
        for t in times:
            v = value(t)
            if v is not None:
                self.out.write(f"{head} {v:.10g} {t:.3f}\n")
                self.samples += 1


def _steps(begin: float, end: float, step: float) -> list[float]:
    first = begin - begin % step + step
    return [first + i * step for i in range(max(0, int((end - first) / step) + 1))]


def _constant(value: float) -> Value:
    return lambda _t: value


def _count(moments: list[float], vm: Vm) -> Value:
    moments = sorted(moments)
    return lambda t: float(bisect.bisect_right(moments, t) - bisect.bisect_right(moments, vm.running_since(t)))


def last_success(vm: Vm, t: float) -> float | None:
    """The poll before the current failures; none if the exporter has failed since its start."""
    began = next((begin for begin, end in vm.failing if begin <= t < end), t)
    return None if began <= vm.begin else began - began % 1


class Exporters:
    """Exporters of a fleet from `begin` to `end`: samples every `step` in the last `dense` seconds, else every `sparse`."""

    def __init__(
        self,
        fleet: list[Vm],
        events: list[Event],
        begin: float,
        end: float,
        step: float,
        dense: float,
        sparse: float,
        job: str,
    ):
        self.fleet, self.events, self.begin, self.end, self.step, self.job = fleet, events, begin, end, step, job
        self.dense_from = end - dense
        self.times = _steps(begin, self.dense_from, sparse) + _steps(self.dense_from, end, step)

    def _target(self, vm: Vm, **labels: str) -> dict[str, str]:
        return {"instance": vm.instance, "job": vm.job or self.job, **dict(vm.target_labels), **labels}

    def _alive(self, vm: Vm) -> list[float]:
        return [t for t in self.times if vm.is_up(t)]

    def _recent(self, vm: Vm) -> list[float]:
        """Times in the dense period only: a month of these series would be gigabytes."""
        return [t for t in self._alive(vm) if t >= self.dense_from]

    def write(self, out: TextIO) -> int:
        w = OpenMetrics(out)
        self.write_series(w)
        out.write("# EOF\n")
        return w.samples

    def write_series(self, w: Writer, parts: tuple[str, ...] = PARTS) -> None:
        for part in parts:
            getattr(self, f"_{part}")(w)

    def _event_vm_pairs(self, of: Callable[[Event, Vm], float | None]) -> Iterable[tuple[Event, Vm, float]]:
        for event in self.events:
            for vm in event.vms:
                value = of(event, vm)
                if value is not None:
                    yield event, vm, value

    def _event_times(self, event: Event, vm: Vm, begin: float | None = None) -> list[float]:
        end = min(self.end, event.ended + ENDED_RETENTION if event.ended else self.end)
        begin = max(self.begin, event.first_seen if begin is None else begin)
        step = self.step if end - begin < 7200 else 60
        times = _steps(begin, end, step)
        return [t for t in times if vm.is_up(t)]

    def _event(self, event: Event, vm: Vm, **labels: str) -> dict[str, str]:
        return self._target(
            vm, event_id=event.event_id, event_type=event.event_type, event_source=event.source, scope="self", **labels
        )

    def _events(self, w: Writer) -> None:
        w.family("azure_scheduled_event_info", "gauge")
        for event, vm, value in self._event_vm_pairs(lambda e, v: 1.0):
            labels = self._event(event, vm, resource_type="VirtualMachine", description=event.description)
            w.series("azure_scheduled_event_info", labels, _constant(value), self._event_times(event, vm))
        gauges: dict[str, Callable[[Event, Vm], float | None]] = {
            "not_before_timestamp_seconds": lambda e, v: e.not_before,
            "duration_seconds": lambda e, v: None if e.duration < 0 else float(e.duration),
            "resources": lambda e, v: float(e.resources or len(e.vms)),
            "first_seen_timestamp_seconds": lambda e, v: e.first_seen,
        }
        for suffix, of in gauges.items():
            name = f"azure_scheduled_event_{suffix}"
            w.family(name, "gauge")
            for event, vm, value in self._event_vm_pairs(of):
                w.series(
                    name,
                    self._event(event, vm),
                    event.not_before_at if suffix == "not_before_timestamp_seconds" else _constant(value),
                    self._event_times(event, vm),
                )
        self._transition_gauges(w)

    def _transition_gauges(self, w: Writer) -> None:
        """Series that begin later than the event: start, end, observed interruption."""
        name = "azure_scheduled_event_not_before_countdown_seconds"
        w.family(name, "gauge")
        for event, vm, _ in self._event_vm_pairs(lambda e, v: None if e.is_advisory else e.not_before):
            until = event.ended or self.end

            def countdown(t, e=event):
                return 0.0 if e.started and t >= e.started else e.not_before_at(t) - t

            w.series(name, self._event(event, vm), countdown, [t for t in self._event_times(event, vm) if t < until])
        transitions: dict[str, Callable[[Event, Vm], tuple[float | None, float | None]]] = {
            "started_timestamp_seconds": lambda e, v: (e.started, e.started),
            "observed_interruption_seconds": lambda e, v: (
                e.interruption.get(v.name),
                (e.started or 0) + e.interruption.get(v.name, 0),
            ),
        }
        for short, of in transitions.items():
            name = f"azure_scheduled_event_{short}"
            w.family(name, "gauge")
            for event, vm, value in self._event_vm_pairs(lambda e, v, of=of: of(e, v)[0]):
                w.series(name, self._event(event, vm), _constant(value), self._event_times(event, vm, of(event, vm)[1]))
        name = "azure_scheduled_event_ended_timestamp_seconds"
        w.family(name, "gauge")
        for event, vm, value in self._event_vm_pairs(lambda e, v: e.ended):
            w.series(
                name,
                self._event(event, vm, outcome=event.outcome),
                _constant(value),
                self._event_times(event, vm, value),
            )

    def _status(self, w: Writer) -> None:
        w.family("azure_scheduled_event_status", "gauge")
        infinity = float("inf")
        for event, vm, _ in self._event_vm_pairs(lambda e, v: 1.0):
            started, ended = event.started or infinity, event.ended or infinity
            statuses: dict[str, Value] = {
                "Scheduled": lambda t, s=started, e=ended, a=event.is_advisory: float(t < s and t < e and not a),
                "Started": lambda t, s=started, e=ended: float(s <= t < e),
                "Ended": lambda t, e=ended: float(t >= e),
            }
            if event.is_advisory:
                statuses["Advisory"] = lambda t, e=ended: float(t < e)
            for status, value in statuses.items():
                w.series(
                    "azure_scheduled_event_status",
                    self._event(event, vm, event_status=status),
                    value,
                    self._event_times(event, vm),
                )

    def _counters(self, w: Writer) -> None:
        by_vm = {vm.name: [e for e in self.events if vm in e.vms] for vm in self.fleet}
        for short, kinds in (("pending", TYPES), ("advisories", ADVISORY_TYPES)):
            name = f"azure_scheduled_events_{short}"
            w.family(name, "gauge")
            for vm in self.fleet:
                for kind in kinds:
                    for scope in ("self", "other"):
                        of = [e for e in by_vm[vm.name] if e.event_type == kind and scope == "self"]

                        def value(t, of=of):
                            return float(sum(e.first_seen <= t < (e.ended or float("inf")) for e in of))

                        w.series(name, self._target(vm, event_type=kind, scope=scope), value, self._recent(vm))
        families = {
            "observed": (("self", "other"), "scope", lambda e, s: e.first_seen if s == "self" else None),
            "ended": (OUTCOMES, "outcome", lambda e, o: e.ended if e.outcome == o else None),
            "approvals": (
                ("approved", "dry_run", "failed"),
                "result",
                lambda e, r: e.first_seen + 60 if e.approved and r == "approved" else None,
            ),
        }
        for short, (values, label, when) in families.items():
            name = f"azure_scheduled_events_{short}"
            w.family(name, "counter")
            for vm in self.fleet:
                for kind in APPROVABLE if short == "approvals" else TYPES:
                    for v in values:
                        moments = [m for e in by_vm[vm.name] if e.event_type == kind and (m := when(e, v)) is not None]
                        w.series(
                            f"{name}_total",
                            self._target(vm, event_type=kind, **{label: v}),
                            _count(moments, vm),
                            self._alive(vm) if moments else self._recent(vm),
                        )

    def _health(self, w: Writer) -> None:
        w.family("up", "gauge")
        for vm in self.fleet:
            w.series(
                "up",
                self._target(vm),
                lambda t, vm=vm: float(vm.is_up(t)),
                [t for t in self.times if vm.is_target(t)],
            )
        w.family("azure_scheduled_events_vm_info", "gauge")
        for vm in self.fleet:
            changed, name = vm.renamed or (FOREVER, "")
            self._vm_info(w, vm, vm.name, vm.named, changed)
            if name:
                self._vm_info(w, vm, name, changed, FOREVER)
        gauges: dict[str, Callable[[Vm, float], float | None]] = {
            "up": lambda vm, t: float(not within(vm.failing, t)),
            "last_success_timestamp_seconds": last_success,
            "document_incarnation": lambda vm, t: float(sum(e.first_seen <= t for e in self.events if vm in e.vms)),
            "spans_spooled": lambda vm, t: 0.0,
            "warming_up": lambda vm, t: float(within(vm.warming_up, t)),
        }
        for short, of in gauges.items():
            name = f"azure_scheduled_events_{short}"
            w.family(name, "gauge")
            for vm in self.fleet:
                w.series(
                    name,
                    self._target(vm),
                    lambda t, vm=vm, of=of: of(vm, t),
                    self._alive(vm) if short == "up" else self._recent(vm),
                )

    def _vm_info(self, w: Writer, vm: Vm, name: str, begin: float, end: float) -> None:
        labels = {
            "vm_name": name,
            "vm_id": f"{zlib.crc32(name.encode()):012d}",
            "vm_scale_set": vm.scale_set,
            "vm_size": vm.size,
            "location": vm.location,
        }
        times = [t for t in self._alive(vm) if begin <= t < end]
        w.series("azure_scheduled_events_vm_info", self._target(vm, **labels), _constant(1), times)

    def _imds(self, w: Writer) -> None:
        """Polling counters and latency, only for the dense period, which the dashboards query."""
        base = self.dense_from
        plain: dict[str, Callable[[Vm, float], float]] = {
            "imds_requests": lambda vm, t: t - base,
            "spans_exported": lambda vm, t: 4.0 * sum((e.ended or t + 1) <= t for e in self.events if vm in e.vms),
            "state_write_failures": lambda vm, t: 0.0,
            "alert_pushes": lambda vm, t: max(0.0, (t - base) // 30),
            "alert_push_failures": lambda vm, t: 0.0,
        }
        for short, of in plain.items():
            w.family(f"azure_scheduled_events_{short}", "counter")
            for vm in self.fleet:
                w.series(
                    f"azure_scheduled_events_{short}_total",
                    self._target(vm),
                    lambda t, vm=vm, of=of: of(vm, t),
                    self._recent(vm),
                )
        labelled = {
            "imds_request_failures": ("reason", REASONS),
            "document_anomalies": ("kind", ("duration", "incarnation", "not_before")),
            "span_export_failures": ("reason", ("connect", "status", "timeout")),
            "spans_dropped": ("reason", ("spool_full",)),
        }
        for short, (label, values) in labelled.items():
            w.family(f"azure_scheduled_events_{short}", "counter")
            for vm in self.fleet:
                for v in values:
                    rate = 1.0 if v == "throttled" else 0.0

                    def count(t, vm=vm, v=v, rate=rate):
                        seconds_failed = sum(max(0.0, min(t, end) - begin) for begin, end in vm.failing)
                        return seconds_failed // 1 if v == "status_5xx" else rate * ((t - base) // 900)

                    w.series(
                        f"azure_scheduled_events_{short}_total",
                        self._target(vm, **{label: v}),
                        count if short == "imds_request_failures" else _constant(0),
                        self._recent(vm),
                    )
        name = "azure_scheduled_events_imds_request_duration_seconds"
        w.family(name, "histogram")
        shares = (0.02, 0.35, 0.8, 0.93, 0.97, 0.985, 0.995, 0.999, 1.0, 1.0, 1.0)
        for vm in self.fleet:
            for le, share in zip(LATENCY_BUCKETS, shares, strict=True):
                w.series(
                    f"{name}_bucket", self._target(vm, le=str(le)), lambda t, s=share: (t - base) * s, self._recent(vm)
                )
            w.series(f"{name}_bucket", self._target(vm, le="+Inf"), lambda t: t - base, self._recent(vm))
            w.series(f"{name}_count", self._target(vm), lambda t: t - base, self._recent(vm))
            w.series(f"{name}_sum", self._target(vm), lambda t: (t - base) * 0.021, self._recent(vm))

    def _process(self, w: Writer) -> None:
        families: dict[str, tuple[str, str, Callable[[Vm, float], float]]] = {
            "process_cpu_seconds": (
                "counter",
                "process_cpu_seconds_total",
                lambda vm, t: (t - self.dense_from) * 0.0011,
            ),
            "process_open_fds": ("gauge", "process_open_fds", lambda vm, t: 14 + (t // 60) % 3),
            "process_resident_memory_bytes": (
                "gauge",
                "process_resident_memory_bytes",
                lambda vm, t: 7.4e6 + (t // 300) % 7 * 6e4,
            ),
            "process_start_time_seconds": (
                "gauge",
                "process_start_time_seconds",
                lambda vm, t: max(self.begin, vm.running_since(t)),
            ),
        }
        for family, (kind, name, of) in families.items():
            w.family(family, kind)
            for vm in self.fleet:
                w.series(name, self._target(vm), lambda t, vm=vm, of=of: of(vm, t), self._recent(vm))
        name = "azure_scheduled_events_exporter_build_info"
        w.family(name, "gauge")
        for vm in self.fleet:
            w.series(
                name,
                self._target(vm, version="0.1.0", revision="0000000", rustc="1.90.0"),
                _constant(1),
                self._alive(vm),
            )
