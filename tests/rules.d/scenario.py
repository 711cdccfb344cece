"""The scripted day of docs/notifications.md: VMs, their events, and the series that their exporters expose."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

# Scrape and evaluation. The last scrape of a VM that disappears is between two evaluations, because Prometheus 3 excludes
# the left end of a range and Prometheus 2 includes it.
STEP = 10
EVALUATION = 15
END = 4 * 3600 + 40 * 60
# An exporter reports an ended event for ten more minutes.
ENDED_RETENTION = 600


def seconds(clock: str) -> int:
    hours, minutes, *rest = (int(part) for part in clock.split(":"))
    return hours * 3600 + minutes * 60 + sum(rest)


@dataclass
class Vm:
    name: str
    address: str
    cluster: str = "prod"
    scale_set: str = ""
    node: str = ""
    # Intervals in which the exporter does not answer. The target stays in service discovery.
    down: list[tuple[int, int]] = field(default_factory=list)
    # From then on the target is not in service discovery.
    deleted: int = END + STEP
    # Intervals in which IMDS does not answer.
    blind: list[tuple[int, int]] = field(default_factory=list)

    @property
    def target(self) -> dict[str, str]:
        labels = {"cluster": self.cluster, "job": "azure-scheduled-events", "instance": f"{self.address}:10169"}
        return labels | ({"node": self.node} if self.node else {})

    def is_up(self, at: int) -> bool:
        return at < self.deleted and not any(begin <= at < end for begin, end in self.down)


@dataclass
class Event:
    """Times are seconds since midnight. `started` and `ended` are when the exporters see it."""

    vms: list[Vm]
    event_type: str
    seen: int
    not_before: int | None = None
    duration: int | None = None
    source: str = "Platform"
    started: int | None = None
    ended: int | None = None
    outcome: str = "completed"
    interrupted: int | None = None
    description: str = ""
    status: str = "Scheduled"
    event_id: str = ""


@dataclass
class Scene:
    title: str
    about: str
    events: list[Event] = field(default_factory=list)
    # The alerts without an event that belong to this scene.
    alerts: tuple[str, ...] = ()


class Day:
    def __init__(self) -> None:
        self.vms: dict[str, Vm] = {}
        self.scenes: list[Scene] = []

    def vm(self, name: str, **rest: object) -> Vm:
        vm = Vm(name, f"10.0.0.{len(self.vms) + 4}", **rest)
        self.vms[f"{vm.cluster}/{name}"] = vm
        return vm

    def scene(self, title: str, about: str, *events: Event, alerts: tuple[str, ...] = ()) -> None:
        for number, event in enumerate(events, 1):
            event.event_id = f"{len(self.scenes) + 1:08X}-0000-4000-8000-{number:012X}"
        self.scenes.append(Scene(title, about, list(events), alerts))

    def series(self) -> list[dict[str, str]]:
        found = [one for vm in self.vms.values() for one in vm_series(vm)]
        found += [
            one
            for scene in self.scenes
            for event in scene.events
            for vm in event.vms
            for one in event_series(event, vm)
        ]
        return [one for one in found if one["values"].strip("_x0123456789 ")]


def notation(name: str, labels: dict[str, str], value: object) -> dict[str, str]:
    """A series in promtool's notation. `value` maps a time to a value, or to None if there is no sample."""
    return promtool_series(name, labels, [value(at) for at in range(0, END + 1, STEP)], STEP)


def promtool_series(name: str, labels: dict[str, str], samples: list[float | None], step: int) -> dict[str, str]:
    """A series in promtool's notation, from one sample per scrape; None if a scrape has none."""
    parts: list[str] = []
    at = 0
    while at < len(samples):
        first = samples[at]
        delta = 0
        if first is not None and at + 1 < len(samples) and samples[at + 1] is not None:
            delta = samples[at + 1] - first if samples[at + 1] - first in {0, step} else 0
        end = at + 1
        while end < len(samples) and samples[end] == (None if first is None else first + delta * (end - at)):
            end += 1
        count = end - at
        if first is None:
            # A scraped series that disappears ends with a marker.
            if at:
                parts.append("stale")
                count -= 1
            parts += [f"_x{count}"] * bool(count)
        else:
            parts.append(f"{first}+{delta}x{count - 1}" if count > 1 else f"{first}")
        at = end
    if parts and parts[-1].startswith("_x"):
        parts.pop()
    written = ",".join(f"{label}={json.dumps(text, ensure_ascii=False)}" for label, text in labels.items())
    return {"series": f"{name}{{{written}}}", "values": " ".join(parts)}


def vm_series(vm: Vm) -> list[dict[str, str]]:
    def sighted(at: int) -> bool:
        return not any(begin <= at < end for begin, end in vm.blind)

    def last_success(at: int) -> int:
        return next((begin for begin, end in vm.blind if begin <= at < end), at)

    info = {"vm_name": vm.name, "vm_id": f"id-{vm.cluster}-{vm.name}", "vm_scale_set": vm.scale_set}
    info |= {"vm_size": "Standard_D4s_v5", "location": "westeurope"}
    return [
        notation("up", vm.target, lambda at: None if at >= vm.deleted else int(vm.is_up(at))),
        notation("azure_scheduled_events_up", vm.target, lambda at: int(sighted(at)) if vm.is_up(at) else None),
        notation(
            "azure_scheduled_events_last_success_timestamp_seconds",
            vm.target,
            lambda at: last_success(at) if vm.is_up(at) else None,
        ),
        notation("azure_scheduled_events_vm_info", vm.target | info, lambda at: 1 if vm.is_up(at) else None),
    ]


def event_series(event: Event, vm: Vm) -> list[dict[str, str]]:
    labels = vm.target | {"event_id": event.event_id, "event_type": event.event_type}
    labels |= {"event_source": event.source, "scope": "self"}
    last = END if event.ended is None else event.ended + ENDED_RETENTION

    def while_reported(value: object, since: int | None = event.seen) -> object:
        return lambda at: value(at) if since is not None and since <= at < last and vm.is_up(at) else None

    def status(at: int) -> str:
        if event.ended is not None and at >= event.ended:
            return "Ended"
        return "Started" if event.started is not None and at >= event.started else event.status

    def gauge(name: str, value: int | None, since: int | None = event.seen, **more: str) -> list[dict[str, str]]:
        if value is None or since is None:
            return []
        return [notation(f"azure_scheduled_event_{name}", labels | more, while_reported(lambda _: value, since))]

    found = [
        notation(
            "azure_scheduled_event_status",
            labels | {"event_status": one},
            while_reported(lambda at, one=one: int(status(at) == one)),
        )
        for one in sorted({"Scheduled", "Started", "Ended", event.status})
    ]
    info = {"resource_type": "VirtualMachine", "description": event.description}
    found += gauge("info", 1, **info)
    found += gauge("not_before_timestamp_seconds", event.not_before)
    found += gauge("duration_seconds", event.duration)
    found += gauge("resources", len(event.vms))
    found += gauge("first_seen_timestamp_seconds", event.seen)
    found += gauge("started_timestamp_seconds", event.started, event.started)
    found += gauge("ended_timestamp_seconds", event.ended, event.ended, outcome=event.outcome)
    found += gauge("observed_interruption_seconds", event.interrupted, event.ended)
    return found
