"""Small worlds of exporters and events, as input of `promtool test rules`, and what the dashboards must say in them.

A world has the series that Prometheus scrapes, minute by minute. `Truth` is the expected result of one query
of a panel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

STEP = 15
FOREVER = 10**6


@dataclass(frozen=True)
class Vm:
    name: str
    scale_set: str = "web"
    more: str = ""  # labels of the target, such as the cluster
    down: tuple[tuple[float, float], ...] = ()  # minutes in which it cannot be scraped
    failing: tuple[float, float] = (FOREVER, FOREVER)  # minutes in which the metadata service does not answer
    warming_up: tuple[float, float] = (FOREVER, FOREVER)
    gone: float = FOREVER  # it leaves service discovery
    advice: int = 0
    paused: float = FOREVER  # for four seconds, unannounced
    resized: float = FOREVER  # from D2s to D4s
    job: str = "azure-scheduled-events"
    host: str = ""
    owner: str = ""

    @property
    def target(self) -> str:
        return f'job="{self.job}",instance="{self.name}"{self.more}'

    def is_up(self, minute: float) -> bool:
        return minute < self.gone and not any(a <= minute < b for a, b in self.down)

    def last_success(self, minute: float) -> float:
        return self.failing[0] if self.failing[0] <= minute < self.failing[1] else minute


@dataclass(frozen=True)
class Event:
    event_id: str
    event_type: str
    vms: tuple[Vm, ...]
    severity: str
    seen: float
    not_before: float | None
    words: tuple[tuple[float, str], ...]  # since when
    started: float = FOREVER  # as the exporters see it
    ended: float = FOREVER
    outcome: str = "completed"
    duration: int | None = None
    interruption: float | None = None
    source: str = "Platform"
    moved: tuple[float, float] = (FOREVER, FOREVER)  # since then it has another NotBefore

    def start(self, minute: float) -> float:
        return self.moved[1] if minute >= self.moved[0] else self.not_before or 0

    def priority(self, minute: float) -> float:
        """As `priority` in src/core/assessment/alerts.rs."""
        if minute >= self.ended:
            return 0
        severity = ("info", "warning", "critical").index(self.severity) + 1
        hours = max(self.start(minute) - minute, 0) / 60
        return 20 + severity if minute >= self.started else 10 + severity - 0.9 * hours if hours <= 1 else 1 / hours


@dataclass(frozen=True)
class Truth:
    board: str
    panel: str
    minute: float
    expected: dict[tuple[str, ...], float]  # values by the labels in `by`
    by: tuple[str, ...] = ()
    ref: str = "A"
    chosen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    name: str
    about: str  # the reason why it exists
    vms: tuple[Vm, ...]
    events: tuple[Event, ...]
    truths: tuple[Truth, ...]
    minutes: int = 40
    step: int = STEP  # seconds from scrape to scrape

    def series(self) -> dict[str, list[float | None]]:
        """The values of each series, one for each scrape; None where it has no sample."""
        times = [i * self.step / 60 for i in range(self.minutes * 60 // self.step + 1)]
        out: dict[str, list[float | None]] = {}

        def add(vm: Vm, name: str, labels: str, value) -> None:
            out[f"{name}{{{vm.target}{labels}}}"] = [value(t) if vm.is_up(t) else None for t in times]

        out['up{job="node",instance="node"}'] = [1] * len(times)
        for vm in self.vms:
            out[f"up{{{vm.target}}}"] = [float(vm.is_up(t)) if t < vm.gone else None for t in times]
            for size, since, until in (("D2s", 0, vm.resized), ("D4s", vm.resized, FOREVER)):
                info = f',vm_name="{vm.name}",vm_scale_set="{vm.scale_set}",owner="{vm.owner}"'
                info += f',vm_size="{size}",location="westeurope"'
                add(vm, "azure_scheduled_events_vm_info", info, lambda t, a=since, b=until: 1 if a <= t < b else None)
            if vm.host:
                add(vm, "azure_scheduled_events_physical_host_info", f',physical_host="{vm.host}"', lambda _: 1)
            add(vm, "azure_scheduled_events_up", "", lambda t, vm=vm: float(t == vm.last_success(t)))
            add(vm, "azure_scheduled_events_last_success_timestamp_seconds", "", lambda t, v=vm: 60 * v.last_success(t))
            add(vm, "azure_scheduled_events_warming_up", "", lambda t, at=vm.warming_up: float(at[0] <= t < at[1]))
            advice = ',event_type="SpotRebalanceRecommendation",scope="self"'
            add(vm, "azure_scheduled_events_advisories", advice, lambda _, vm=vm: vm.advice)
            pauses = "azure_scheduled_events_unannounced_interruption_seconds_sum"
            add(vm, pauses, "", lambda t, vm=vm: 4.0 * (t >= vm.paused))
            add(vm, "azure_scheduled_events_imds_requests_total", "", lambda t: 60 * t)
            failures = "azure_scheduled_events_imds_request_failures_total"
            add(vm, failures, ',reason="timeout"', lambda t: 30 * t)
            add(vm, "azure_scheduled_events_span_export_failures_total", ',reason="timeout"', lambda t: 30 * t)
        for event in self.events:
            for vm in event.vms:
                self._event(event, vm, add)
        return out

    @staticmethod
    def _event(event: Event, vm: Vm, add) -> None:
        def shown(t: float) -> bool:
            return event.seen <= t < event.ended + 10

        def when(begin: float, value, end: float = FOREVER):
            return lambda t: value if shown(t) and begin <= t < end else None

        event_id = f',event_id="{event.event_id}"'
        known = lambda t: shown(t) and t == vm.last_success(t)  # noqa: E731
        add(vm, "azure_scheduled_event_open", event_id, lambda t: float(t < event.ended) if known(t) else None)
        names = f',vm_name="{vm.name}",vm_scale_set="{vm.scale_set}",owner="{vm.owner}"'
        names = f'{event_id},event_type="{event.event_type}"{names}'
        add(vm, "azure_scheduled_event_priority", names, lambda t: event.priority(t) if shown(t) else None)
        ends = [begin for begin, _ in event.words[1:]] + [FOREVER]
        for (begin, words), end in zip(event.words, ends, strict=True):
            labels = f'{event_id},summary="{words}",description="What: {words}"'
            add(vm, "azure_scheduled_event_message", labels, when(begin, 60 * begin, end))
        own = f'{event_id},event_type="{event.event_type}",event_source="{event.source}",scope="self"'
        add(vm, "azure_scheduled_event_first_seen_timestamp_seconds", own, when(0, 60 * event.seen))
        if event.duration is not None:
            add(vm, "azure_scheduled_event_duration_seconds", own, when(0, event.duration))
        if event.interruption is not None:
            add(vm, "azure_scheduled_event_observed_interruption_seconds", own, when(event.ended, event.interruption))
        if event.not_before is not None:
            name = "azure_scheduled_event_not_before_timestamp_seconds"
            add(vm, name, own, lambda t: 60 * event.start(t) if shown(t) else None)
            left = lambda t: 60 * (event.start(t) - t if t < event.started else 0) if shown(t) else None  # noqa: E731
            add(vm, "azure_scheduled_event_not_before_countdown_seconds", own, left)
        if event.ended < FOREVER:
            outcome = f'{own},outcome="{event.outcome}"'
            add(vm, "azure_scheduled_event_ended_timestamp_seconds", outcome, when(event.ended, 60 * event.ended))
        begun = lambda t: float(event.started <= t < event.ended) if shown(t) else None  # noqa: E731
        add(vm, "azure_scheduled_event_status", f'{own},event_status="Started"', begun)


def notation(values: list[float | None]) -> str:
    """Values as promtool writes them: `1+2x3` is 1, 3, 5, 7, `_x3` is three times none, and `stale` ends a series."""
    out: list[str] = []
    at = 0
    while at < len(values):
        first, end = values[at], at + 1
        step = 0 if first is None or end == len(values) else (values[end] or 0) - first
        while end < len(values) and values[end] == (None if first is None else first + (end - at) * step):
            end += 1
        if first is None:
            out += ["stale", *([f"_x{end - at - 1}"] if end - at > 1 else [])] if at else [f"_x{end}"]
        else:
            out.append(f"{first:.12g}{step:+.12g}x{end - at - 1}")
        at = end
    return " ".join(out)


FLEET, VM, HISTORY = "azse-fleet.json", "azse-vm.json", "azse-history.json"
NOTICE = "Notice against Azure's promise, and interruption"
NEVER_SCRAPED = "Exporters that do not report, and why"
CRITICAL, WARNING, INFO = 3, 2, 1
COVERAGE = {"in_event": "-1", "not_scraped": "0", "no_metadata": "1", "report": "2", "warming_up": "4", "gone": "5"}
NONE, NOT_STARTED = {("none reported",): 0}, {("no VM reports a start",): 0}
# What is said about the exporters: `state` in dashboards/generator/queries.py.
MISSING, NOT_SELECTED, OTHER_JOB, NO_EXPORTER = "0", "2", "3", "4"


def now(minute: float, expected: dict[tuple[str, ...], float], ref: str = "C", **more) -> Truth:
    """Events that do not report, of a VM that is down for long (`B`), and that have begun (`C`)."""
    return Truth(FLEET, "Now", minute, expected, ("summary",), ref, **more)


def on_vm(minute: float, expected: dict[tuple[str, ...], float], ref: str = "B", **more) -> Truth:
    return Truth(VM, "Now and next", minute, expected, ("summary",), ref, **more)


def says(minute: float, known: str, board: str = FLEET, **more) -> Truth:
    """What is said about the exporters; nothing if all report."""
    panel, ref = ("Now", "D") if board == FLEET else ("Now and next", "C")
    return Truth(board, panel, minute, {(known,): 1} if known else {}, ("known",), ref, **more)


def due(severity: int, minutes: float) -> float:
    return round(10 + severity - 0.9 * minutes / 60, 3)


def coming(minute: float, text: str, priority: float, **more) -> Truth:
    return Truth(FLEET, "Next", minute, {(text,): priority}, ("summary",), **more)


def coverage(minute: float, board: str = FLEET, chosen=None, **counts: float) -> Truth:
    expected = {(COVERAGE[why],): n for why, n in counts.items()}
    return Truth(board, "Coverage", minute, expected, ("coverage",), "A", chosen or {})


def figure(board: str, panel: str, minute: float, value: float, **more) -> Truth:
    return Truth(board, panel, minute, {(): value}, (), **more)


def web(count: int, **more) -> tuple[Vm, ...]:
    return tuple(Vm(f"web_{i}", **more) for i in range(count))


def reboot(event_id: str, vms: tuple[Vm, ...], seen: float, not_before: float, words, **more) -> Event:
    return Event(event_id, "Reboot", vms, "critical", seen, not_before, words, **more)


def freeze(
    event_id: str, vms: tuple[Vm, ...], seen: float, not_before: float, words, severity: str = "info", **more
) -> Event:
    return Event(event_id, "Freeze", vms, severity, seen, not_before, words, **more)


# fmt: off
def quiet() -> World:
    vms = (*web(2), Vm("web_2", down=((20, FOREVER),)), Vm("db_9", down=((0, 10),)))
    this = {"chosen": {"instance": "web_2"}}
    return World(
        "quiet", "Nothing is open. Then an exporter cannot be scraped, so nobody knows.", vms, (),
        (
            now(15, NOT_STARTED), says(15, ""), Truth(FLEET, "Next", 15, {("1",): 1}, ("known",), "B"),
            now(25, NOT_STARTED), says(25, MISSING), Truth(FLEET, "Next", 25, {("0",): 1}, ("known",), "B"),
            coverage(15, report=4), coverage(25, report=3, not_scraped=1),
            Truth(FLEET, NEVER_SCRAPED, 25, {("web_2", "web_2"): 0}, ("vm_name", "instance")),
            Truth(FLEET, NEVER_SCRAPED, 39, {("", "web_2"): 0}, ("vm_name", "instance")),
            says(25, "", VM, chosen={"instance": "web_0"}), says(25, MISSING, VM, **this),
            says(25, "", chosen={"instance": "web_(0|1)"}), says(25, NOT_SELECTED, chosen={"instance": "db_0"}),
            says(25, OTHER_JOB, chosen={"job": "exporters"}), figure(FLEET, "VMs hit in 1 h", 15, 0),
            figure(HISTORY, "Events", 25, 0),
            figure(HISTORY, "Data since", 38, 30 * 60 * 1000, chosen={"instance": "db_9"}), figure(HISTORY, "Data since", 25, 0),
        ),
    )


def no_exporter() -> World:
    return World(
        "no-exporter", "Prometheus scrapes something, but no exporter.", (), (),
        (
            says(15, NO_EXPORTER, chosen={"job": "()"}), says(15, NO_EXPORTER, VM, chosen={"job": "()"}),
            Truth(FLEET, "Coverage", 15, {}, ("coverage",), chosen={"job": "()"}),
            Truth(HISTORY, "Data since", 15, {}, chosen={"job": "()"}),
        ),
    )


def frozen() -> World:
    words = ((10, "Freeze of web_0 and 2 more VMs at 00:28 UTC"), (28, "Freeze of web_0 and 2 more VMs in progress since 00:28 UTC"),
             (29, "Freeze of web_0 and 2 more VMs completed"))  # fmt: skip
    vms = (*web(3, host="AMS1"), Vm("web_3"), Vm("db_0", "", host="AMS1"), Vm("db_1", "", host="AMS2"))
    event = freeze("E-1", vms[:3], 10, 28, words, "warning", duration=15, started=28, ended=29, interruption=12)
    on_host, late = {("AMS1", name): 1 for name in ("db_0", "web_0", "web_1", "web_2")}, {"__range": "780s", "__range_s": "780"}
    return World(
        "freeze", "A Freeze of three VMs, from the announcement to the history.", vms, (event,),
        (
            Truth(FLEET, "VMs on the hosts of these events", 15, on_host, ("physical_host", "vm_name")),
            Truth(FLEET, "VMs on the hosts of these events", 35, {}, ("physical_host", "vm_name")),
            now(15, NOT_STARTED), says(15, ""), coming(15, words[0][1], due(WARNING, 13)),
            figure(FLEET, "Starts in", 15, 13 * 60), figure(FLEET, "VMs hit in 1 h", 15, 3),
            Truth(FLEET, "Pending now", 15, {(words[0][1],): due(WARNING, 13)}, ("summary",)),
            figure(FLEET, "Pending now", 15, 13 * 60, ref="B"),
            Truth(FLEET, "VMs of these events", 15, {(f"web_{i}",): due(WARNING, 13) for i in range(3)}, ("vm_name",)),
            now(28.5, {(words[1][1],): 20 + WARNING}), now(30, NOT_STARTED), figure(HISTORY, "Events", 38, 1),
            figure(HISTORY, "VMs hit", 38, 3), figure(HISTORY, "Time lost", 38, 36),
            Truth(HISTORY, NOTICE, 38, {("Freeze",): 18 * 60}, ("event_type",), "C"), Truth(HISTORY, NOTICE, 38, {}, ("event_type",), "C", late),
            Truth(HISTORY, "Scale sets at risk", 38, {("web",): 3}, ("vm_scale_set",)),
            Truth(HISTORY, "Scale sets at risk", 38, {("web",): 4}, ("vm_scale_set",), "C"),
            Truth(HISTORY, "VMs hit most", 38, {(f"web_{i}",): 1 for i in range(3)}, ("vm_name",)),
            figure(VM, "Past events", 38, 12, ref="E", chosen={"instance": "web_0"}), Truth(VM, "Past events", 38, {}, ref="B", chosen={"instance": "web_0", **late}),
        ),
    )


def restarting() -> World:
    words = ((5, "Reboot of web_0 at 00:20 UTC"), (70, "Reboot of web_0 completed, interrupted for 50m"))
    vm = Vm("web_0", down=((20, 70), (90, FOREVER)))
    event = reboot("E-1", (vm,), 5, 20, words, started=20, ended=70, interruption=3000)
    silent = {(words[0][1],): due(CRITICAL, 0.25)}
    this = {"chosen": {"instance": "web_0"}}
    return World(
        "restart", "A Reboot whose VM was down before a scrape saw the start, for longer than 15 minutes.",
        (vm, Vm("web_1")), (event,),
        (
            now(21, silent, "A"), now(21, {}, "B"), on_vm(21, silent, **this), coverage(21, report=1, in_event=1),
            figure(VM, "The life of each event", 21, 0, **this),
            Truth(FLEET, "VMs of these events", 21, {("web_0",): due(CRITICAL, 0.25)}, ("vm_name",)),
            now(60, {}, "A"), now(60, silent, "B"), now(60, {}, "B", chosen={"owner": "shop"}), on_vm(60, silent, "A", **this),
            says(60, MISSING), coverage(60, report=1, not_scraped=1), figure(HISTORY, "VMs hit", 60, 1),
            now(72, NOT_STARTED), now(72, {}, "A"), now(72, {}, "B"), now(95, {}, "B"), figure(HISTORY, "Time lost", 78, 3000), figure(HISTORY, "VMs hit", 78, 1),
        ),
        minutes=100,
    )


def evicted() -> World:
    words = ((10, "Preempt of spot_0 at 00:10:30 UTC"),)
    vm = Vm("spot_0", gone=10.6, scale_set="spot", down=((0, 1),))
    event = Event("E-1", "Preempt", (vm,), "critical", 10, 10.5, words)
    silent = {(words[0][1],): 10 + CRITICAL}
    return World(
        "eviction", "A Spot VM that is gone half a minute after the announcement. No scrape saw the start or the end.",
        (vm, Vm("web_1", paused=20)), (event,),
        (
            Truth(HISTORY, "Evictions by size and region", 38, {("D2s", "westeurope"): 1}, ("vm_size", "location")),
            Truth(HISTORY, "Interruptions that no event announced", 38, {("web_1", "web_1"): 4}, ("vm_name", "instance")),
            now(13, silent, "A"), Truth(FLEET, "VMs of these events", 13, {("spot_0",): 10 + CRITICAL}, ("vm_name",)),
            coverage(13, report=1, in_event=1), now(25, silent, "A"), on_vm(13, silent, chosen={"instance": "spot_0"}),
            now(28, {}, "A"), now(28, NOT_STARTED), coverage(28, report=1), figure(HISTORY, "VMs hit", 38, 1),
            coverage(28, VM, {"instance": "spot_0"}, gone=1),
            Truth(HISTORY, "Scale sets at risk", 38, {("spot",): 1}, ("vm_scale_set",)),
            figure(VM, "Past events", 38, 10 * 60 * 1000, chosen={"instance": "spot_0"}),
        ),
    )


def worst_first() -> World:
    vms = web(6)
    text = "Reboot of web_{} at 00:23 UTC"
    events = tuple(reboot(f"E-{i}", (vms[i],), 9, 23, ((9, text.format(i)),)) for i in range(3))
    short = freeze("E-8", (vms[4],), 9, 11, ((9, "Freeze of web_4 at 00:11 UTC"),), duration=5)
    later = Event("E-9", "Redeploy", (vms[5],), "warning", 9, 5000, ((9, "Redeploy of web_5 later"),))
    lines = {**{(f"E-{i}",): due(CRITICAL, 13) for i in range(3)}, ("E-8",): due(INFO, 1), ("E-9",): 0.012}
    return World(
        "worst-first", "A harmless Freeze in a minute, three critical Reboots within the hour, a Redeploy in days.",
        vms, (*events, short, later),
        (
            figure(FLEET, "Starts in", 10, 13 * 60), figure(FLEET, "Next", 10, due(CRITICAL, 13)),
            Truth(FLEET, "Pending now", 10, lines, ("event_id",)), figure(FLEET, "VMs hit in 1 h", 10, 4),
            coming(10, "Redeploy of web_5 later", 0.012, chosen={"event_type": "Redeploy"}),
        ),
    )  # fmt: skip


def clusters() -> World:
    east = Vm("web_0", more=',cluster="east"')
    west = Vm("web_0", more=',cluster="west"')
    words = "Reboot of web_0 in progress since 00:12 UTC"
    event = reboot("E-1", (east,), 5, 12, ((5, words),), started=12)
    in_east, in_west = ({"instance": "web_0", "cluster": name} for name in ("east", "west"))
    return World(
        "clusters", "Two clusters with equal addresses and names.", (east, west), (event,),
        (
            Truth(FLEET, "Now", 15, {(words, " (east)"): 20 + CRITICAL}, ("summary", "in"), "C"),
            on_vm(15, {(words,): 20 + CRITICAL}, chosen=in_east), on_vm(15, NONE, chosen=in_west),
            now(15, NOT_STARTED, chosen={"cluster": "west"}), figure(FLEET, "VMs hit in 1 h", 15, 1),
            figure(HISTORY, "VMs hit", 15, 1), figure(HISTORY, "VMs hit", 15, 0, chosen={"cluster": "west"}),
        ),
    )


def replicas() -> World:
    a = Vm("web_0", more=',replica="a"', down=((8, 25),), advice=1)
    b = Vm("web_0", more=',replica="b"', advice=1)
    this = {"chosen": {"instance": "web_0"}}
    words = "Freeze of web_0 at 00:20 UTC"
    event = freeze("E-1", (a, b), 5, 20, ((5, words),), "warning", duration=30, started=20, ended=22, interruption=20)
    return World(
        "replicas", "A ruler over two replicas of Prometheus. One of them does not reach the VM for some time.", (a, b),
        (event,),
        (
            coverage(10, report=1), says(10, ""), Truth(FLEET, NEVER_SCRAPED, 10, {}, ("instance",)), coming(10, words, due(WARNING, 10)),
            figure(FLEET, "VMs hit in 1 h", 10, 1),
            Truth(FLEET, "VMs of these events", 10, {("web_0",): due(WARNING, 10)}, ("vm_name",)),
            figure(FLEET, "With advice", 30, 1), figure(VM, "Advice", 30, 1, **this),
            figure(VM, "Requests to the metadata service", 30, 1, **this),
            Truth(VM, "Requests to the metadata service", 30, {("timeout",): 0.5}, ("reason",), "B", **this),
            figure(VM, "Trouble", 30, 30, ref="C", **this), figure(VM, "Past events", 30, 20, ref="E", **this),
            figure(HISTORY, "Events", 30, 1), figure(HISTORY, "Time lost", 30, 20), figure(HISTORY, "VMs hit", 30, 1),
            Truth(HISTORY, "Scale sets at risk", 30, {("web",): 1}, ("vm_scale_set",)),
            Truth(HISTORY, "VMs hit most", 30, {("web_0",): 1}, ("vm_name",)),
        ),
    )


def failing() -> World:
    vms = (
        *web(2), Vm("db_0", failing=(10, FOREVER)), Vm("db_1", warming_up=(10, 30)), Vm("db_2", down=((10, FOREVER),)),
    )  # fmt: skip
    words = "Freeze of web_0 and 1 more VM in progress since 00:15 UTC"
    # One of its VMs saw the end, the other one cannot know.
    event = freeze("E-1", (Vm("web_0"), vms[2]), 9, 15, ((9, words),), "warning", started=15)
    over = replace(event, vms=(Vm("web_0"),), ended=20)
    return World(
        "failing", "Exporters that do not report, by reason.", vms, (replace(event, vms=(vms[2],)), over),
        (
            coverage(16, report=2, not_scraped=1, no_metadata=1, warming_up=1), says(16, MISSING),
            now(16, {(words,): 20 + WARNING}), now(22, NOT_STARTED), now(22, {}, "A"),
            Truth(FLEET, "Pending now", 22, {}, ("event_id",)),
            Truth(FLEET, NEVER_SCRAPED, 16, {("db_0",): 1, ("db_1",): 4, ("db_2",): 0}, ("vm_name",)),
        ),
    )


def past() -> World:
    vms = (*web(2), Vm("web_2", owner="shop"), Vm("web_3"))
    user = Event(
        "E-3", "Reboot", (vms[2],), "info", 10, 10, ((10, "Reboot of web_2 in progress since 00:10 UTC"),),
        started=10, ended=14, interruption=60, source="User",
    )  # fmt: skip
    return World(
        "past", "What became of a cancelled event, of one that lasted longer than announced, and of one of a user.",
        vms,
        (
            reboot("E-1", (vms[0],), 5, 20, ((5, "Reboot of web_0 at 00:20 UTC"),), ended=12, outcome="cancelled"),
            freeze("E-2", (vms[1],), 5, 7, ((5, "Freeze of web_1 at 00:07 UTC"),), duration=5, started=7, ended=8, interruption=9),
            user,
        ),
        (
            figure(FLEET, "Pending now", 11, 20 + INFO, chosen={"instance": "web_2"}), figure(HISTORY, "Events", 35, 3),
            figure(FLEET, "Pending now", 11, 20 + INFO, chosen={"owner": "shop"}), figure(HISTORY, "Events", 35, 1, chosen={"owner": "shop"}),
            figure(HISTORY, "VMs hit", 35, 2), figure(HISTORY, "Time lost", 35, 69),
            figure(HISTORY, "Events", 35, 1, chosen={"instance": "web_1"}),
            figure(HISTORY, "Events", 35, 0, chosen={"scale_set": "db"}), figure(HISTORY, "Cancelled", 35, 1),
        ),
    )  # fmt: skip


def approved() -> World:
    vm = Vm("web_0", down=((14, 25),))
    words = ((5, "Reboot of web_0 at 00:20 UTC"),)
    event = reboot("E-1", (vm,), 5, 20, words, moved=(12, 12), started=12, ended=24, interruption=660)
    return World(
        "approval", "An approved Reboot starts before its first NotBefore. Its notice stays that of the announcement.",
        (vm, Vm("web_1")), (event,),
        (
            Truth(HISTORY, NOTICE, 10, {("Reboot",): 900}, ("event_type",), "C"),
            Truth(HISTORY, NOTICE, 35, {("Reboot",): 900}, ("event_type",), "C"),
        ),
    )


def two_jobs() -> World:
    other = Vm("web_0", job="staging")
    words = "Reboot of web_0 in progress since 00:12 UTC"
    event = reboot("E-1", (other,), 5, 12, ((5, words),), started=12)
    return World(
        "two-jobs", "Two jobs of exporters.", (Vm("web_1"), other), (event,),
        (
            now(15, {(words,): 20 + CRITICAL}), now(15, NOT_STARTED, chosen={"job": "azure-scheduled-events"}),
            coverage(15, report=2), figure(HISTORY, "Events", 15, 1),
        ),
    )


def storm() -> World:
    vms = tuple(Vm(f"web_{i}", scale_set=f"set_{i // 300}") for i in range(1500))
    text = "Reboot of web_{} at 00:{} UTC"
    freezes = [freeze(f"F-{i}", vms[30 * i : 30 * i + 10], 3, 4, ((3, f"Freeze {i}"),), "warning", started=4) for i in range(30)]
    reboots = [reboot(f"R-{i}", (vms[1490 + i],), 3, 20 + i, ((3, text.format(1490 + i, 20 + i)),)) for i in range(10)]
    lines = {(f"F-{i}",): 20 + WARNING for i in range(30)} | {(f"R-{i}",): due(CRITICAL, 14 + i) for i in range(10)}
    return World(
        "storm", "1,500 VMs with 40 events.", vms, (*freezes, *reboots),
        (
            Truth(FLEET, "Now", 6, {(): 20 + WARNING}, ref="C"), coming(6, text.format(1490, 20), due(CRITICAL, 14)),
            figure(FLEET, "VMs hit in 1 h", 6, 310), coverage(6, report=1500), Truth(FLEET, "Pending now", 6, lines, ("event_id",)),
            Truth(FLEET, "VMs of these events", 6, {("Freeze",): 20 + WARNING, ("Reboot",): due(CRITICAL, 14)}, ("event_type",)),
            figure(HISTORY, "Events", 6, 40), figure(HISTORY, "Scale sets at risk", 6, 10),
        ),
        minutes=6, step=60,
    )


def week() -> World:
    """Each day six Freezes of two VMs, a Reboot during which the VM is down, and a Preempt of a VM that does not come back."""
    webs, events, more = web(12), [], []
    for day in range(7):
        at = day * 1440 + 60
        for i in range(6):
            seen = at + 120 * i
            over = {"started": seen + 16, "ended": seen + 20, "interruption": 9}
            events.append(freeze(f"F-{day}{i}", webs[2 * i : 2 * i + 2], seen, seen + 16, ((seen, "Freeze"),), **over))
        db = Vm(f"db_{day}", scale_set="", down=((at + 16, at + 32),))
        events.append(reboot(f"R-{day}", (db,), at, at + 16, ((at, "Reboot"),), started=at + 16, ended=at + 32, interruption=480))
        spot = Vm(f"spot_{day}", scale_set="spot", gone=at + 8, resized=40)
        events.append(Event(f"P-{day}", "Preempt", (spot,), "critical", at, at + 4, ((at, "Preempt"),)))
        more += [db, spot]
        if day % 2:
            events.append(reboot(f"C-{day}", (db,), at + 600, at + 640, ((at + 600, "Reboot"),), ended=at + 620, outcome="cancelled"))
    end = 7 * 1440
    return World(
        "week", "A week of 59 events.", (*webs, *more), tuple(events),
        (
            figure(HISTORY, "Events", end, 59), figure(HISTORY, "VMs hit", end, 26), figure(HISTORY, "Cancelled", end, 3),
            figure(HISTORY, "Time lost", end, 42 * 2 * 9 + 7 * 480), figure(HISTORY, "VMs hit most", end, 7), figure(HISTORY, "Data since", end, 0),
            Truth(HISTORY, "Events per day", 1440, {("Freeze",): 6, ("Reboot",): 2, ("Preempt",): 1}, ("event_type",)),
            Truth(HISTORY, "Evictions by size and region", end, {("D4s", "westeurope"): 7}, ("vm_size", "location")),
            Truth(HISTORY, "Interruption per day", 1440, {("Freeze",): 108, ("Reboot",): 480}, ("event_type",)),
            Truth(HISTORY, NOTICE, end, {("Freeze",): 42, ("Reboot",): 10, ("Preempt",): 7}, ("event_type",)),
            Truth(HISTORY, NOTICE, end, {("Freeze",): 960, ("Reboot",): 960, ("Preempt",): 240}, ("event_type",), "C"),
            Truth(HISTORY, NOTICE, end, {("Freeze",): 9, ("Reboot",): 480}, ("event_type",), "E"),
            Truth(HISTORY, "Scale sets at risk", end, {("web",): 84, ("spot",): 7}, ("vm_scale_set",), "B"),
        ),
        minutes=end + 8, step=240,
    )


ALL = (
    quiet, no_exporter, frozen, restarting, evicted, worst_first, clusters, replicas, failing, past, approved, two_jobs,
    storm, week,
)


def named(names: Iterable[str], known: Iterable[str] = ()) -> list[World]:
    """The worlds with these names, or all of them; `known` limits the names."""
    made = {world.name: world for world in (make() for make in ALL)}
    if unknown := set(names) - set(known or made):
        sys.exit(f"tests/dashboards/run: no world {', '.join(sorted(unknown))}: there are {', '.join(known or made)}")
    return [made[name] for name in names or made]
