"""Small worlds of exporters and events, as input of `promtool test rules`, and what the dashboards must say in them.

A world has the series that Prometheus scrapes, minute by minute. The rules are the real ones. `Truth` is the expected
result of one query of a panel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

STEP = 15
FOREVER = 10**6


@dataclass(frozen=True)
class Vm:
    name: str
    instance: str = ""
    scale_set: str = "web"
    more: str = ""  # labels of the target, such as the cluster
    down: tuple[tuple[float, float], ...] = ()  # minutes in which it cannot be scraped
    failing: tuple[float, float] = (FOREVER, FOREVER)  # minutes in which the metadata service does not answer
    warming_up: tuple[float, float] = (FOREVER, FOREVER)
    gone: float = FOREVER  # it leaves service discovery
    advice: int = 0
    job: str = "azure-scheduled-events"

    @property
    def target(self) -> str:
        return f'job="{self.job}",instance="{self.instance or self.name}"{self.more}'

    def is_up(self, minute: float) -> bool:
        return minute < self.gone and not any(a <= minute < b for a, b in self.down)

    def last_success(self, minute: float) -> float:
        return self.failing[0] if self.failing[0] <= minute < self.failing[1] else minute


@dataclass(frozen=True)
class Event:
    event_id: str
    event_type: str
    vms: tuple[Vm, ...]
    alerts: tuple[tuple[str, str], ...]
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


@dataclass(frozen=True)
class Truth:
    board: str
    panel: str
    minute: float
    expected: dict[tuple[str, ...], float]  # values by the labels in `by`
    by: tuple[str, ...] = ("summary", "state")
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
    rules: tuple[str, ...] = ("alerts", "dashboards")

    def series(self) -> dict[str, list[float | None]]:
        """The values of each series, one for each scrape; None where it has no sample."""
        times = [i * STEP / 60 for i in range(self.minutes * 60 // STEP + 1)]
        out: dict[str, list[float | None]] = {}

        def add(vm: Vm, name: str, labels: str, value) -> None:
            out[f"{name}{{{vm.target}{labels}}}"] = [value(t) if vm.is_up(t) else None for t in times]

        for vm in self.vms:
            out[f"up{{{vm.target}}}"] = [float(vm.is_up(t)) if t < vm.gone else None for t in times]
            info = f',vm_name="{vm.name}",vm_scale_set="{vm.scale_set}",location="westeurope"'
            add(vm, "azure_scheduled_events_vm_info", info, lambda _: 1)
            add(vm, "azure_scheduled_events_up", "", lambda t, vm=vm: float(t == vm.last_success(t)))
            success = "azure_scheduled_events_last_success_timestamp_seconds"
            add(vm, success, "", lambda t, vm=vm: 60 * vm.last_success(t))
            warming = lambda t, vm=vm: float(vm.warming_up[0] <= t < vm.warming_up[1])  # noqa: E731
            add(vm, "azure_scheduled_events_warming_up", "", warming)
            advice = ',event_type="SpotRebalanceRecommendation",scope="self"'
            add(vm, "azure_scheduled_events_advisories", advice, lambda _, vm=vm: vm.advice)
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
        kind = f'{event_id},event_type="{event.event_type}",event_source="{event.source}"'
        for alert, severity in event.alerts:
            labels = f'{kind},alert="AzureScheduledEvent{alert}",severity="{severity}"'
            add(vm, "azure_scheduled_event_alert", labels, when(0, 1))
        add(vm, "azure_scheduled_event_open", event_id, lambda t: float(t < event.ended) if shown(t) else None)
        ends = [begin for begin, _ in event.words[1:]] + [FOREVER]
        for (begin, words), end in zip(event.words, ends, strict=True):
            labels = f'{event_id},summary="{words}",description="What: {words}"'
            add(vm, "azure_scheduled_event_message", labels, when(begin, 60 * begin, end))
        own = f'{kind},scope="self"'
        gauges = {
            "first_seen_timestamp_seconds": (0, 60 * event.seen),
            "started_timestamp_seconds": (event.started, 60 * event.started),
            "duration_seconds": (0, event.duration),
            "resources": (0, len(event.vms)),
            "observed_interruption_seconds": (event.ended, event.interruption),
        }
        for name, (begin, value) in gauges.items():
            if value is not None and begin < FOREVER:
                add(vm, f"azure_scheduled_event_{name}", own, when(begin, value))
        if event.not_before is not None:
            name = "azure_scheduled_event_not_before_timestamp_seconds"
            at, moved = event.moved
            add(vm, name, own, lambda t: 60 * (moved if t >= at else event.not_before) if shown(t) else None)
        if event.ended < FOREVER:
            outcome = f'{own},outcome="{event.outcome}"'
            add(vm, "azure_scheduled_event_ended_timestamp_seconds", outcome, when(event.ended, 60 * event.ended))
        for status, begin, end in (
            ("Scheduled", 0, min(event.started, event.ended)),
            ("Started", event.started, event.ended),
            ("Ended", event.ended, FOREVER),
        ):
            labels = f'{own},event_status="{status}"'
            add(
                vm,
                "azure_scheduled_event_status",
                labels,
                lambda t, a=begin, b=end: float(a <= t < b) if shown(t) else None,
            )


def notation(values: list[float | None]) -> str:
    """Values as promtool writes them: `1+0x3` is four times 1, `stale` ends a series."""
    out, run = [], 0
    for i, value in enumerate(values):
        if value is None:
            out.append("stale" if i and values[i - 1] is not None else "_")
            continue
        run = run + 1 if i and values[i - 1] == value else 0
        if run:
            out.pop()
        out.append(f"{value:g}+0x{run}" if abs(value) < 1e5 else f"{value:.0f}+0x{run}")
    return " ".join(out)


FLEET, VM, HISTORY = "azse-fleet.json", "azse-vm.json", "azse-history.json"
NOTICE = "Notice against Azure's promise, and interruption"
CRITICAL, WARNING, INFO = 3, 2, 1
COVERAGE = {
    "not_scraped": "not scraped",
    "no_metadata": "no metadata",
    "warming_up": "warming up",
    "in_event": "in its event",
    "report": "report",
}
# What a panel shows in place of events.
MISSING, NONE, NOT_SELECTED = "0", "1", "2"


def now(minute: float, expected: dict[tuple[str, ...], float], board: str = FLEET, **more) -> Truth:
    return Truth(board, "Now" if board == FLEET else "Now and next", minute, expected, **more)


def idle(minute: float, known: str, board: str = FLEET, **more) -> Truth:
    return Truth(
        board,
        "Now" if board == FLEET else "Now and next",
        minute,
        {(known,): 1},
        ("known",),
        "C" if board == FLEET else "B",
        **more,
    )


def begun(severity: int, *, down: bool = False, gone: bool = False) -> int:
    return 100_000 + 10_000 * severity + (3 if gone else 2 if down else 1)


def coming(minute: float, text: str, order: float) -> Truth:
    return Truth(FLEET, "Next", minute, {(text,): order}, ("summary",))


def coverage(minute: float, **counts: float) -> Truth:
    return Truth(FLEET, "Coverage", minute, {(COVERAGE[why],): n for why, n in counts.items()}, ("coverage",))


def figure(board: str, panel: str, minute: float, value: float, **more) -> Truth:
    return Truth(board, panel, minute, {(): value}, (), **more)


def web(count: int, **more) -> tuple[Vm, ...]:
    return tuple(Vm(f"web_{i}", **more) for i in range(count))


def reboot(event_id: str, vms: tuple[Vm, ...], seen: float, not_before: float, words, **more) -> Event:
    alerts = (("Reboot", "critical"), ("InProgress", "info"))
    return Event(event_id, "Reboot", vms, alerts, seen, not_before, words, **more)


def freeze(
    event_id: str, vms: tuple[Vm, ...], seen: float, not_before: float, words, severity: str = "info", **more
) -> Event:
    return Event(event_id, "Freeze", vms, (("Freeze", severity),), seen, not_before, words, **more)


def quiet() -> World:
    vms = (*web(2), Vm("web_2", down=((20, FOREVER),)))
    return World(
        "quiet",
        "Nothing is open. Then an exporter cannot be scraped, so nobody knows.",
        vms,
        (),
        (
            idle(15, NONE),
            idle(25, MISSING),
            coverage(15, report=3),
            coverage(25, report=2, not_scraped=1),
            Truth(
                FLEET,
                "Exporters that do not report, and why",
                25,
                {("web_2", "not scraped"): 0},
                ("vm_name", "coverage"),
            ),
            idle(25, NONE, VM, chosen={"instance": "web_0"}),
            idle(25, MISSING, VM, chosen={"instance": "web_2"}),
            idle(25, NONE, chosen={"instance": "web_(0|1)"}),
            idle(25, NOT_SELECTED, chosen={"instance": "db_0"}),
            figure(FLEET, "VMs hit in 1 h", 15, 0),
            figure(HISTORY, "Events", 25, 0),
        ),
    )


def frozen() -> World:
    words = ((10, "Freeze of web_0 and 2 more VMs at 00:28 UTC"), (28, "Freeze of web_0 and 2 more VMs in progress since 00:28 UTC"),
             (29, "Freeze of web_0 and 2 more VMs completed"))  # fmt: skip
    event = freeze("E-1", web(3), 10, 28, words, "warning", duration=15, started=28, ended=29, interruption=12)
    return World(
        "freeze",
        "A Freeze of three VMs, from the announcement to the history.",
        web(4),
        (event,),
        (
            idle(15, NONE),
            coming(15, words[0][1], 20_000 - 13 * 60),
            figure(FLEET, "Starts in", 15, 13 * 60),
            figure(FLEET, "VMs hit in 1 h", 15, 3),
            figure(FLEET, "Pending now", 15, 20_000 - 780),
            figure(FLEET, "Pending now", 15, 13 * 60, ref="B"),
            Truth(
                FLEET,
                "VMs of these events",
                15,
                {(f"web_{i}", words[0][1]): 20_000 - 780 for i in range(3)},
                ("vm_name", "summary"),
            ),
            now(28.5, {(words[1][1], ""): begun(WARNING)}),
            idle(30, NONE),
            figure(HISTORY, "Events", 38, 1),
            figure(HISTORY, "VMs hit", 38, 3),
            figure(HISTORY, "Time lost", 38, 36),
            Truth(HISTORY, NOTICE, 38, {("Freeze",): 18 * 60}, ("event_type",), "C"),
            figure(HISTORY, "Not begun", 38, 0),
            Truth(HISTORY, "Scale sets at risk", 38, {("web",): 0.75}, ("vm_scale_set",)),
            Truth(HISTORY, "VMs hit most", 38, {(f"web_{i}",): 1 for i in range(3)}, ("vm_name",)),
            figure(VM, "Past events", 38, 12, ref="E", chosen={"instance": "web_0"}),
        ),
    )


def restarting() -> World:
    words = ((5, "Reboot of web_0 at 00:20 UTC"), (70, "Reboot of web_0 completed, interrupted for 50m"))
    vm = Vm("web_0", down=((20, 70),))
    event = reboot("E-1", (vm,), 5, 20, words, started=20, ended=70, interruption=3000)
    says = {("Reboot of web_0 at 00:20 UTC", ", VM down"): begun(CRITICAL, down=True)}
    this = {"chosen": {"instance": "web_0"}}
    return World(
        "restart",
        "A Reboot whose VM was down before a scrape saw the start, for longer than 15 minutes.",
        (vm, Vm("web_1")),
        (event,),
        (
            now(21, says),
            now(60, says),
            now(60, says, VM, **this),
            figure(VM, "The life of each event", 60, 1, **this),
            Truth(VM, "Coverage", 60, {("in its event",): 1}, ("coverage",), **this),
            coverage(60, report=1, in_event=1),
            figure(FLEET, "Pending now", 60, -2, ref="B"),
            Truth(FLEET, "VMs of these events", 60, {("web_0",): begun(CRITICAL, down=True)}, ("vm_name",)),
            figure(FLEET, "VMs of these events", 60, 1000 * 20 * 60, ref="B"),
            figure(HISTORY, "VMs hit", 60, 1),
            Truth(HISTORY, "Scale sets at risk", 60, {("web",): 0.5}, ("vm_scale_set",)),
            idle(72, NONE),
            figure(HISTORY, "Time lost", 78, 3000),
        ),
        minutes=80,
    )


def evicted() -> World:
    words = ((10, "Preempt of spot_0 at 00:10:30 UTC"),)
    vm = Vm("spot_0", gone=10.6, scale_set="spot")
    event = Event("E-1", "Preempt", (vm,), (("Preempt", "critical"),), 10, 10.5, words)
    says = {(words[0][1], ", VM gone"): begun(CRITICAL, gone=True)}
    return World(
        "eviction",
        "A Spot VM that is gone half a minute after the announcement. No scrape saw the start or the end.",
        (vm, Vm("web_1")),
        (event,),
        (
            now(13, says),
            Truth(FLEET, "VMs of these events", 13, {("spot_0",): begun(CRITICAL, gone=True)}, ("vm_name",)),
            Truth(FLEET, "VMs of these events", 13, {("spot_0",): 1000 * 60 * 10.75}, ("instance",), "B"),
            coverage(13, report=1),
            now(25, says),
            Truth(FLEET, "VMs of these events", 25, {("spot_0",): 1000 * 60 * 10.75}, ("instance",), "B"),
            now(13, says, VM, chosen={"instance": "spot_0"}),
            idle(28, NONE),
            figure(HISTORY, "VMs hit", 38, 1),
            Truth(HISTORY, "Scale sets at risk", 38, {("spot",): 1}, ("vm_scale_set",)),
            figure(VM, "Past events", 38, 10 * 60 * 1000, chosen={"instance": "spot_0"}),
        ),
    )


def worst_first() -> World:
    vms = web(6)
    text = "Reboot of web_{} at 00:23 UTC"
    events = tuple(reboot(f"E-{i}", (vms[i],), 9, 23, ((9, text.format(i)),)) for i in range(3))
    short = freeze("E-8", (vms[4],), 9, 11, ((9, "Freeze of web_4 at 00:11 UTC"),), duration=5)
    later = Event(
        "E-9", "Redeploy", (vms[5],), (("DegradedHardware", "warning"),), 9, 5000, ((9, "Redeploy of web_5 later"),)
    )
    return World(
        "worst-first",
        "A harmless Freeze in a minute, three critical Reboots within the hour, a Redeploy in days.",
        vms,
        (*events, short, later),
        (
            figure(FLEET, "Starts in", 10, 13 * 60),
            figure(FLEET, "Next", 10, 30_000 - 13 * 60),
            Truth(
                FLEET, "Pending now", 10, {**{(f"E-{i}",): 30_000 - 780 for i in range(3)}, ("E-8",): 10_000 - 60, ("E-9",): -4990 * 60},
                ("event_id",),
            ),
            figure(FLEET, "VMs hit in 1 h", 10, 4),
            figure(FLEET, "Next", 10, -4990 * 60, chosen={"event_type": "Redeploy"}),
        ),
    )  # fmt: skip


def clusters() -> World:
    east = Vm("web_0", more=',cluster="east"')
    west = Vm("web_0", more=',cluster="west"')
    words = "Reboot of web_0 in progress since 00:12 UTC"
    event = reboot("E-1", (east,), 5, 12, ((5, words),), started=12)
    in_east, in_west = ({"instance": "web_0", "cluster": name} for name in ("east", "west"))
    return World(
        "clusters",
        "Two clusters with equal addresses and names.",
        (east, west),
        (event,),
        (
            Truth(FLEET, "Now", 15, {(words, "east"): begun(CRITICAL)}, ("summary", "cluster")),
            now(15, {(words, ""): begun(CRITICAL)}, VM, chosen=in_east),
            idle(15, NONE, VM, chosen=in_west),
            idle(15, NONE, chosen={"cluster": "west"}),
            figure(FLEET, "VMs hit in 1 h", 15, 1),
            figure(HISTORY, "VMs hit", 15, 1),
            figure(HISTORY, "VMs hit", 15, 0, chosen={"cluster": "west"}),
        ),
    )


def replicas() -> World:
    a = Vm("web_0", more=',replica="a"', down=((8, 25),), advice=1)
    b = Vm("web_0", more=',replica="b"', advice=1)
    this = {"chosen": {"instance": "web_0"}}
    words = "Freeze of web_0 at 00:20 UTC"
    event = freeze("E-1", (a, b), 5, 20, ((5, words),), "warning", duration=30, started=20, ended=22, interruption=20)
    return World(
        "replicas",
        "A ruler over two replicas of Prometheus. One of them does not reach the VM for some time.",
        (a, b),
        (event,),
        (
            coverage(10, report=1),
            coming(10, words, 20_000 - 600),
            figure(FLEET, "VMs hit in 1 h", 10, 1),
            Truth(FLEET, "VMs of these events", 10, {("web_0",): 20_000 - 600}, ("vm_name",)),
            figure(FLEET, "With advice", 30, 1),
            figure(VM, "Advice", 30, 1, **this),
            figure(VM, "Requests to the metadata service", 30, 1, **this),
            Truth(VM, "Requests to the metadata service", 30, {("timeout",): 0.5}, ("reason",), "B", **this),
            figure(VM, "Trouble", 30, 30, ref="C", **this),
            figure(VM, "Past events", 30, 20, ref="E", **this),
            figure(HISTORY, "Events", 30, 1),
            figure(HISTORY, "Time lost", 30, 20),
            figure(HISTORY, "VMs hit", 30, 1),
            Truth(HISTORY, "Scale sets at risk", 30, {("web",): 1}, ("vm_scale_set",)),
            Truth(HISTORY, "Scale sets at risk", 30, {("web",): 1}, ("vm_scale_set",), "B"),
            Truth(HISTORY, "VMs hit most", 30, {("web_0",): 1}, ("vm_name",)),
        ),
    )


def failing() -> World:
    vms = (
        *web(2), Vm("db_0", failing=(10, FOREVER)), Vm("db_1", warming_up=(10, 30)), Vm("db_2", down=((10, FOREVER),)),
    )  # fmt: skip
    return World(
        "failing",
        "Exporters that do not report, by reason.",
        vms,
        (),
        (
            coverage(15, report=2, not_scraped=1, no_metadata=1, warming_up=1),
            # An alert fires.
            figure(FLEET, "Coverage", 25, 1, ref="B"),
            idle(20, MISSING),
        ),
    )


def past() -> World:
    vms = web(4)
    user = Event(
        "E-3", "Reboot", (vms[2],), (("InProgress", "info"),), 10, 10, ((10, "Reboot of web_2 in progress since 00:10 UTC"),),
        started=10, ended=14, interruption=60, source="User",
    )  # fmt: skip
    return World(
        "past",
        "What became of a cancelled event, of one that lasted longer than announced, and of one of a user.",
        vms,
        (
            reboot("E-1", (vms[0],), 5, 20, ((5, "Reboot of web_0 at 00:20 UTC"),), ended=12, outcome="cancelled"),
            freeze("E-2", (vms[1],), 5, 7, ((5, "Freeze of web_1 at 00:07 UTC"),), duration=5, started=7, ended=8, interruption=9),
            user,
        ),
        (
            figure(FLEET, "Pending now", 11, begun(INFO), chosen={"instance": "web_2"}),
            figure(HISTORY, "Events", 35, 3),
            figure(HISTORY, "VMs hit", 35, 2),
            figure(HISTORY, "Time lost", 35, 69),
            figure(HISTORY, "Events", 35, 1, chosen={"instance": "web_1"}),
            figure(HISTORY, "Events", 35, 0, chosen={"scale_set": "db"}),
            figure(HISTORY, "Not begun", 35, 1),
        ),
    )  # fmt: skip


def approved() -> World:
    vm = Vm("web_0", down=((14, 25),))
    words = ((5, "Reboot of web_0 at 00:20 UTC"),)
    event = reboot("E-1", (vm,), 5, 20, words, moved=(12, 12), started=12, ended=24, interruption=660)
    return World(
        "approval",
        "An approved Reboot starts before its first NotBefore. Its notice stays that of the announcement.",
        (vm, Vm("web_1")),
        (event,),
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
        "two-jobs",
        "Exporters of a job that the rules do not select are not part of the fleet.",
        (Vm("web_1"), other),
        (event,),
        (idle(15, NONE), coverage(15, report=1), figure(HISTORY, "Events", 15, 0)),
    )


def no_rules() -> World:
    words = "Reboot of web_0 in progress since 00:12 UTC"
    event = reboot("E-1", (Vm("web_0"),), 5, 12, ((5, words),), started=12)
    return World(
        "no-rules",
        "The rules are not loaded.",
        web(1),
        (event,),
        (
            idle(15, NOT_SELECTED),
            idle(15, NOT_SELECTED, VM, chosen={"instance": "web_0"}),
            figure(HISTORY, "Since", 15, -1),
        ),
        rules=(),
    )


ALL = (quiet, frozen, restarting, evicted, worst_first, clusters, replicas, failing, past, approved, two_jobs, no_rules)


def named(names: Iterable[str], known: Iterable[str] = ()) -> list[World]:
    """The worlds with these names, or all of them; `known` limits the names."""
    made = {world.name: world for world in (make() for make in ALL)}
    if unknown := set(names) - set(known or made):
        sys.exit(f"tests/dashboards/run: no world {', '.join(sorted(unknown))}: there are {', '.join(known or made)}")
    return [made[name] for name in names or made]
