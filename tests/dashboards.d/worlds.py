"""The scripted worlds: VMs, their events and the moments at which the dashboards are looked at.

Times are seconds since the world's begin, which is midnight UTC. Scrapes every 15 s, rules every minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import fleet
from exposition import PARTS
from fleet import DAY, FOREVER, HOUR, MINUTE, Event, Vm

JOB = "azure-scheduled-events"


@dataclass(frozen=True)
class Moment:
    at: int
    about: str


@dataclass
class World:
    name: str
    about: str
    vms: list[Vm]
    events: list[Event]
    moments: list[Moment]
    looked_at: Vm | None = None  # the VM of the VM dashboard
    rules: tuple[str, ...] = ("alerts", "dashboards")
    replicas: tuple[str, ...] = ()  # of Prometheus, whose external label `replica` a query sees
    is_ruler_global: bool = False  # one ruler reads all replicas, instead of one in each replica
    does_fail: bool = False  # every query fails
    parts: tuple[str, ...] = PARTS  # of the series of all VMs but the one that is looked at
    boards: tuple[str, ...] = ("azse-fleet.json", "azse-history.json", "azse-vm.json")
    shown: tuple[str, ...] = ("azse-fleet.json", "azse-vm.json")
    has_alerts: bool = True
    extra: list[Vm] = field(default_factory=list)  # other targets of the same VMs
    is_slow: bool = False
    scrape: int = 15
    interval: int = 60

    def open_events(self, at: float) -> list[Event]:
        return [e for e in self.events if not e.is_advisory and e.first_seen <= at < (e.ended or FOREVER)]

    def blind(self, at: float) -> list[Vm]:
        """VMs whose exporter does not answer, or whose answer does not show all events yet."""
        known = [vm for vm in self.vms if vm.is_target(at)]
        return [
            vm for vm in known if not vm.is_up(at) or fleet.within(vm.failing, at) or fleet.within(vm.warming_up, at)
        ]


def event(number: int, kind: str, vms: Iterable[Vm], seen: float, not_before: float | None, **more) -> Event:
    more = {"source": "Platform", "duration": -1, "description": fleet.DESCRIPTIONS[kind]} | more
    event_id = f"{number:08X}-0000-4000-8000-00000000A25E"
    return Event(event_id, kind, vms=tuple(vms), first_seen=seen, not_before=not_before, **more)


def change(vms: list[Vm], index: int, **more) -> Vm:
    vms[index] = replace(vms[index], **more)
    return vms[index]


def healthy() -> World:
    vms = fleet.vms(6)
    return World(
        "healthy", "No event, all exporters answer.", vms, [], [Moment(20 * MINUTE, "nothing happens")], vms[0]
    )


def types() -> World:
    vms = fleet.vms(6)
    shapes = {
        "Freeze": (15 * MINUTE, 5, "Platform"),
        "Reboot": (15 * MINUTE, 600, "Platform"),
        "Redeploy": (10 * MINUTE, -1, "Platform"),
        "Preempt": (3 * MINUTE + 30, -1, "Platform"),
        "Terminate": (7 * MINUTE, -1, "User"),
        "SpotRebalanceRecommendation": (None, -1, "Platform"),
    }
    events, moments = [], []
    for number, (kind, (notice, duration, source)) in enumerate(shapes.items(), 1):
        seen = number * 12 * MINUTE
        not_before = None if notice is None else seen + notice
        more = {"duration": duration, "source": source, "is_advisory": kind in fleet.ADVISORY_TYPES}
        of = [vms[3]] if kind in ("Preempt", "SpotRebalanceRecommendation") else [vms[0]]
        ended = seen + 5 * MINUTE
        events.append(event(number, kind, of, seen, not_before, ended=ended, outcome="cancelled", **more))
        moments.append(Moment(seen + 3 * MINUTE, f"{kind} announced"))
    return World("types", "One event of each type after the other, each cancelled.", vms, events, moments, vms[0])


def started() -> World:
    vms = fleet.vms(6)
    down = change(vms, 1, down=((25 * MINUTE + 25, 52 * MINUTE),))
    reboot = event(
        1, "Reboot", [down], 10 * MINUTE, 25 * MINUTE, duration=600,
        started=25 * MINUTE + 10, ended=52 * MINUTE, outcome="completed", interruption={down.name: 1595.0},
    )  # fmt: skip
    moments = [
        Moment(20 * MINUTE, "announced"),
        Moment(28 * MINUTE, "started, and the VM has been down for two minutes"),
        Moment(48 * MINUTE, "the VM has been down for 22 minutes"),
        Moment(56 * MINUTE, "the VM is back, the event has ended"),
    ]
    return World("started", "A Reboot. The exporter is down with its VM.", vms, [reboot], moments, down)


def overdue() -> World:
    vms = fleet.vms(6)
    events = [
        event(1, "Redeploy", [vms[1]], 10 * MINUTE, 20 * MINUTE),
        event(2, "Freeze", [vms[0], vms[4]], 21 * MINUTE, 36 * MINUTE, duration=5),
        event(3, "Reboot", [vms[2]], 15 * MINUTE, 2 * DAY),
    ]
    moments = [Moment(26 * MINUTE, "the Redeploy has been due for six minutes, the Freeze is next")]
    return World("overdue", "A Redeploy that has not started after NotBefore.", vms, events, moments, vms[1])


def no_not_before() -> World:
    vms = fleet.vms(6)
    events = [event(1, "Reboot", [vms[1]], 10 * MINUTE, None)]
    moments = [Moment(14 * MINUTE, "announced without a time")]
    return World("no-not-before", "A Reboot without NotBefore.", vms, events, moments, vms[1])


def evicted() -> World:
    vms = fleet.vms(8)
    spot = change(vms, 3, down=((21 * MINUTE, 22 * MINUTE),), end=22 * MINUTE)
    gone = change(vms, 7, down=((24 * MINUTE, FOREVER),))
    events = [
        event(
            1, "Preempt", [spot], 20 * MINUTE, 20 * MINUTE + 30,
            started=20 * MINUTE + 32, ended=37 * MINUTE, outcome="unknown",
        ),
        event(
            2, "Terminate", [gone], 15 * MINUTE, 21 * MINUTE + 30, source="User",
            started=21 * MINUTE + 30, ended=39 * MINUTE, outcome="unknown",
        ),
    ]  # fmt: skip
    moments = [
        Moment(23 * MINUTE + 30, "the Spot VM is gone, the other one is being deleted"),
        Moment(30 * MINUTE, "both VMs are gone, their last samples are six minutes old"),
        Moment(50 * MINUTE, "15 minutes after the last sample"),
    ]
    about = "An evicted Spot VM leaves service discovery, a deleted VM does not. Neither reports the end."
    return World("evicted", about, vms, events, moments, spot)


def failing() -> World:
    vms = fleet.vms(24)
    for i in range(17):
        since = ((20 * MINUTE, FOREVER),)
        change(vms, i, **({"down": since} if i % 2 else {"failing": since}))
    later = event(1, "Freeze", [vms[20]], 34 * MINUTE, 49 * MINUTE, duration=5)
    moments = [Moment(30 * MINUTE, "nothing is announced"), Moment(38 * MINUTE, "a Freeze is announced")]
    return World("failing", "17 of 24 exporters fail.", vms, [later], moments, vms[1])


def no_exporter() -> World:
    moments = [Moment(10 * MINUTE, "no exporter is scraped")]
    return World("no-exporter", "The rules are loaded, but no exporter is scraped.", [], [], moments)


def _two_events(vms: list[Vm]) -> list[Event]:
    return [
        event(1, "Freeze", vms[0:5:4], 10 * MINUTE, 25 * MINUTE, duration=5),
        event(2, "Reboot", [vms[1]], 12 * MINUTE, 27 * MINUTE, duration=600),
    ]


def _two_events_at(about: str) -> list[Moment]:
    return [Moment(17 * MINUTE, about)]


def query_errors() -> World:
    vms = fleet.vms(6)
    moments = _two_events_at("every query fails")
    return World("query-errors", "Prometheus answers no query.", vms, _two_events(vms), moments, vms[1], does_fail=True)


def no_rules() -> World:
    vms = fleet.vms(6)
    moments = _two_events_at("two events are announced")
    return World("no-rules", "No rules are loaded.", vms, _two_events(vms), moments, vms[1], rules=())


def no_dashboard_rules() -> World:
    vms = fleet.vms(6)
    about = "Only the rules of alerts/ are loaded, not those of dashboards/."
    moments = _two_events_at("two events are announced")
    return World("no-dashboard-rules", about, vms, _two_events(vms), moments, vms[1], rules=("alerts",))


def replicas() -> World:
    vms = fleet.vms(6)
    about = "Two replicas of Prometheus, each with rules. A query sees the series of both, without de-duplication."
    moments = _two_events_at("two events are announced")
    return World("replicas", about, vms, _two_events(vms), moments, vms[1], replicas=("a", "b"))


def replicas_global_ruler() -> World:
    about = "As `replicas`, but one ruler reads the series of both."
    return replace(replicas(), name="replicas-global-ruler", about=about, is_ruler_global=True)


def rollout() -> World:
    vms = [replace(vm, target_labels=(("pod", f"azse-{i}-old"),)) for i, vm in enumerate(fleet.vms(6))]
    events = _two_events(vms)
    new = []
    for i, vm in enumerate(vms):
        begin = 15 * MINUTE + i * 15
        new.append(replace(vm, target_labels=(("pod", f"azse-{i}-new"),), begin=begin))
        vms[i] = replace(vm, end=begin + 4 * MINUTE)
    moments = [
        Moment(17 * MINUTE + 15, "old and new pods are scraped, at the same addresses"),
        Moment(22 * MINUTE, "only the new pods are scraped"),
    ]
    about = "A rollout of the exporters' pods: each VM has two targets for four minutes."
    return World("rollout", about, vms, events, moments, vms[1], extra=new)


def two_jobs() -> World:
    vms = fleet.vms(6)
    canary = [replace(vm, job="azure-scheduled-events-canary") for vm in vms[:2]]
    about = "Two VMs are also scraped by another job, which the selector of the rules does not select."
    moments = _two_events_at("two events are announced")
    return World("two-jobs", about, vms, _two_events(vms), moments, vms[1], extra=canary)


def clusters() -> World:
    east = [replace(vm, target_labels=(("cluster", "east"),)) for vm in fleet.vms(8)]
    west = [replace(vm, name=f"west-{vm.name}", target_labels=(("cluster", "west"),)) for vm in fleet.vms(8)]
    change(east, 2, down=((12 * MINUTE, FOREVER),))
    events = [
        event(1, "Reboot", [west[1]], 10 * MINUTE, 25 * MINUTE, duration=600),
        event(2, "Freeze", [east[1], east[5]], 12 * MINUTE, 27 * MINUTE, duration=5),
    ]
    moments = [Moment(17 * MINUTE, "one event in each cluster; in east, one exporter is down")]
    about = "Two clusters whose VMs have equal addresses."
    return World("clusters", about, east + west, events, moments, west[1])


def names() -> World:
    vms = fleet.vms(6)
    late = change(vms, 0, named=16 * MINUTE + 20)
    changed = change(vms, 1, renamed=(14 * MINUTE, "vm-db-renamed"))
    replaced = change(vms, 5, renamed=(11 * MINUTE, "vm-db-replaced"))
    events = [
        event(1, "Freeze", [late], 10 * MINUTE, 25 * MINUTE, duration=5),
        event(2, "Reboot", [changed], 12 * MINUTE, 27 * MINUTE, duration=600),
        event(3, "Redeploy", [replaced], 11 * MINUTE + 10, 21 * MINUTE),
    ]
    moments = [
        Moment(14 * MINUTE + 30, "one name is not known, two have changed"),
        Moment(16 * MINUTE + 45, "the missing name has just been scraped"),
        Moment(20 * MINUTE, "all names are known"),
    ]
    return World("names", "A name that arrives late, and names that change.", vms, events, moments, changed)


def warming_up() -> World:
    vms = fleet.vms(6)
    for i in (0, 1):
        change(vms, i, warming_up=((10 * MINUTE, 15 * MINUTE),), begin=10 * MINUTE)
    moments = [Moment(13 * MINUTE, "two of six warm up"), Moment(17 * MINUTE, "all have warmed up")]
    return World("warming-up", "Two exporters start.", vms, [], moments, vms[0])


def large() -> World:
    vms = fleet.vms(1500)
    kinds = [("Freeze", 15 * MINUTE, 5)] * 24 + [
        ("Reboot", 15 * MINUTE, 600),
        ("Redeploy", 26 * HOUR, -1),
        ("Freeze", 3 * DAY, 9),
        ("Terminate", 9 * MINUTE, -1),
    ] * 4
    events = []
    for number, (kind, notice, duration) in enumerate(kinds, 1):
        seen = 9 * MINUTE + (number % 8) * 15
        of = vms[number * 36 : number * 36 + 4 * (1 + number % 10) : 4]
        has_started = number in (5, 25)
        not_before = 12 * MINUTE if has_started else 9 * MINUTE + notice + number * 11  # all different
        events.append(
            event(
                number, kind, of, seen, not_before, duration=duration, started=12 * MINUTE + 30 if has_started else None
            )
        )
    moments = [Moment(15 * MINUTE, "40 events; a Freeze and a Reboot have started")]
    looked_at = events[24].vms[0]
    return World("large", "1,500 VMs with 40 events.", vms, events, moments, looked_at, parts=PARTS[:3], scrape=60)


def _past(vms: list[Vm], begin: float, number: int) -> list[Event]:
    """A postponed Freeze of two VMs, a cancelled Redeploy, and an approved Reboot."""
    freeze_started = begin + 40 * MINUTE
    reboot_started = begin + 12 * MINUTE
    return [
        event(
            number, "Freeze", vms[0:2], begin, begin + 15 * MINUTE, duration=5, moved=(begin + 8 * MINUTE, begin + 40 * MINUTE),
            started=freeze_started, ended=freeze_started + 8 * MINUTE, outcome="completed",
            interruption={vms[0].name: 4.0, vms[1].name: 8.0},
        ),
        event(number + 1, "Redeploy", [vms[2]], begin, begin + 2 * HOUR, ended=begin + 20 * MINUTE, outcome="cancelled"),
        event(
            number + 2, "Reboot", [vms[3]], begin, begin + 15 * MINUTE, duration=600, source="User", approved=True,
            started=reboot_started, ended=reboot_started + 20 * MINUTE, outcome="completed", interruption={vms[3].name: 300.0},
        ),
    ]  # fmt: skip


def past() -> World:
    vms = fleet.vms(8)
    first, second = 16 * MINUTE, 72 * MINUTE
    gone = change(vms, 7, end=84 * MINUTE)
    # The exporter that approved the reboots restarts after each.
    change(vms, 3, restarts=(first + 40 * MINUTE, second + 40 * MINUTE))
    events = [*_past(vms, first, 1), *_past(vms, second, 4)]
    events += [
        event(
            7,
            "Terminate",
            [gone],
            76 * MINUTE,
            82 * MINUTE,
            ended=99 * MINUTE,
            outcome="unknown",
            source="User",
        )
    ]
    about = "Two replicas of Prometheus, one of the VMs is deleted, and an exporter restarts after its approvals."
    moments = [Moment(140 * MINUTE, "seven events have ended")]
    return World(
        "past",
        about,
        vms,
        events,
        moments,
        vms[0],
        replicas=("a", "b"),
        parts=PARTS[:-1],
        shown=("azse-history.json", "azse-vm.json"),
    )


def month() -> World:
    """Steps of four minutes: with longer ones, series would be stale between two scrapes.

    There are exporters only in the first and the last hours, because promtool takes minutes for all of them, and its
    queries read at most 10,000 samples.
    """
    last = 30 * DAY - 6 * HOUR
    vms = [replace(vm, away=((6 * HOUR, last),)) for vm in fleet.vms(4)]
    events = [*_past(vms, 40 * MINUTE, 1), *_past(vms, 2 * HOUR, 4), *_past(vms, last + HOUR, 7)]
    moments = [Moment(30 * DAY, "the last 30 days")]
    about = "Nine events, six of them 30 days ago."
    history = ("azse-history.json",)
    return World(
        "month", about, vms, events, moments, parts=PARTS[:5], boards=history, shown=history,
        scrape=240, interval=240, has_alerts=False, is_slow=True,
    )  # fmt: skip


def script() -> list[World]:
    """The slow one first, because two are evaluated at a time."""
    of_world = (
        month, large, healthy, types, started, overdue, no_not_before, evicted, failing, no_exporter, query_errors,
        no_rules, no_dashboard_rules, replicas, replicas_global_ruler, rollout, two_jobs, clusters, names, warming_up,
        past,
    )  # fmt: skip
    return [make() for make in of_world]
