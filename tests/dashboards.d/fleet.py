"""A synthetic fleet and a month of its events, as plain data.

All data depends only on one time (`now`) and one seed, so the same arguments give the same fleet.
`exposition.py` converts it to series.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

MINUTE, HOUR, DAY = 60, 3600, 86400
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
APPROVABLE = ("Freeze", "Reboot", "Redeploy")
ADVISORY_TYPES = ("SpotRebalanceRecommendation",)

# Descriptions per event type, as documented for Scheduled Events.
DESCRIPTIONS = {
    "Freeze": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "Reboot": "Host server is undergoing maintenance.",
    "Redeploy": "Host server has degraded hardware.",
    "Preempt": "",
    "Terminate": "Virtual machine is being deleted as part of a scale-in operation.",
    "SpotRebalanceRecommendation": "",
}


Intervals = tuple[tuple[float, float], ...]
FOREVER = float("inf")


@dataclass(frozen=True)
class Vm:
    name: str
    instance: str
    scale_set: str
    size: str
    location: str
    # Labels of the target besides `job` and `instance`, such as `cluster`.
    target_labels: tuple[tuple[str, str], ...] = ()
    job: str = ""  # if it is not that of the other VMs
    begin: float = -FOREVER  # the target is in service discovery from then on
    end: float = FOREVER  # the target is not in service discovery any more
    down: Intervals = ()  # the exporter does not answer scrapes
    failing: Intervals = ()  # IMDS does not answer the exporter
    warming_up: Intervals = ()
    named: float = -FOREVER  # the instance metadata has the name from then on
    renamed: tuple[float, str] | None = None
    restarts: tuple[float, ...] = ()  # of the exporter: its counters start at 0

    def is_up(self, t: float) -> bool:
        return self.is_target(t) and not within(self.down, t)

    def is_target(self, t: float) -> bool:
        return self.begin <= t < self.end

    def running_since(self, t: float) -> float:
        """The last start of the exporter; its begin if it has not been restarted."""
        return max((restart for restart in self.restarts if restart <= t), default=self.begin)


def within(intervals: Intervals, t: float) -> bool:
    return any(begin <= t < end for begin, end in intervals)


@dataclass(frozen=True)
class Event:
    event_id: str
    event_type: str
    source: str
    vms: tuple[Vm, ...]
    first_seen: float
    not_before: float | None
    duration: int  # -1: unknown
    started: float | None = None
    ended: float | None = None
    outcome: str = ""
    interruption: dict[str, float] = field(default_factory=dict)  # by VM name
    approved: bool = False
    description: str = ""
    is_advisory: bool = False
    moved: tuple[float, float] | None = None  # since then it has another NotBefore
    resources: int = 0  # VMs that it names, if that is not the number of `vms`

    def not_before_at(self, t: float) -> float | None:
        return self.moved[1] if self.moved and t >= self.moved[0] else self.not_before


def vms(count: int = 24) -> list[Vm]:
    """`count` VMs in four groups: a scale set of web servers, databases, AKS nodes, Spot workers."""
    out = []
    for i in range(count):
        address = f"10.2.{i // 250}.{i % 250 + 4}:10169"
        kind, n = i % 4, i // 4
        if kind == 0:
            out.append(Vm(f"vm-web-{n + 1:02d}", address, "vmss-web", "Standard_D4s_v5", "westeurope"))
        elif kind == 1:
            out.append(Vm(f"vm-db-{n + 1:02d}", address, "", "Standard_E8s_v5", "northeurope"))
        elif kind == 2:
            out.append(
                Vm(f"aks-system-31874-vmss{n:06d}", address, "aks-system-31874-vmss", "Standard_D8ds_v5", "westeurope")
            )
        else:
            out.append(Vm(f"spot-batch_{n}", address, "spot-batch", "Standard_F8s_v2", "swedencentral"))
    return out


def _id(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper()


def _group(fleet: list[Vm], prefix: str) -> list[Vm]:
    return [vm for vm in fleet if vm.name.startswith(prefix)]


# Per type: notice in seconds, announced durations, length of the started phase, probability of cancellation.
_SHAPES = {
    "Freeze": ((880, 1100), (5, 5, 9, 9, 15, -1), (120, 420), 0.10),
    "Reboot": ((850, 1000), (-1, -1, 600, 900), (300, 800), 0.18),
    "Redeploy": ((560, 900), (-1, -1, 1200), (500, 1400), 0.08),
    "Preempt": ((12, 31), (-1,), (15, 40), 0.0),
    "Terminate": ((300, 600), (-1,), (60, 180), 0.0),
}
_AFFECTED_PREFIX = {"Freeze": "", "Reboot": "vm-", "Redeploy": "vm-", "Preempt": "spot-", "Terminate": "spot-"}


def _interruption(rng: random.Random, kind: str, duration: int, length: float) -> float:
    if kind == "Freeze":
        return round(max(1.0, rng.gauss(duration if duration > 0 else 6, 2.5)), 1)
    return round(length * rng.uniform(0.35, 0.9), 1)


def past(fleet: list[Vm], now: float, days: int, count: int, seed: int = 169) -> list[Event]:
    """`count` ended events of the last `days` days."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        kind = rng.choices(TYPES, weights=(46, 14, 12, 18, 10))[0]
        notice, durations, length_range, cancel = _SHAPES[kind]
        group = [vm for vm in fleet if vm.name.startswith(_AFFECTED_PREFIX[kind])]
        lead = rng.choice(group)
        peers = [vm for vm in group if vm.scale_set == lead.scale_set and vm.scale_set and vm is not lead]
        affected = (lead, *rng.sample(peers, k=min(len(peers), rng.choice((0, 0, 1, 2)))))
        seen = now - rng.uniform(3 * HOUR, days * DAY)
        not_before = (
            seen + rng.uniform(*notice) + (rng.choice((0, 2 * DAY)) if kind == "Redeploy" and rng.random() < 0.3 else 0)
        )
        duration = rng.choice(durations)
        source = "User" if kind == "Terminate" or (kind == "Reboot" and rng.random() < 0.45) else "Platform"
        common = {
            "event_id": _id(rng),
            "event_type": kind,
            "source": source,
            "vms": affected,
            "first_seen": seen,
            "not_before": not_before,
            "duration": duration,
            "description": DESCRIPTIONS[kind] if source == "Platform" else "",
        }
        if rng.random() < cancel:
            out.append(Event(**common, ended=seen + (not_before - seen) * rng.uniform(0.2, 0.9), outcome="cancelled"))
            continue
        # An exporter approves no Preempt and no Terminate.
        approved = kind in APPROVABLE and (source == "User" or (kind == "Freeze" and 0 <= duration < 9))
        started = seen + 65 if approved and not_before - seen > 120 else not_before + rng.uniform(1, 40)
        length = rng.uniform(*length_range)
        outcome = "unknown" if kind in ("Preempt", "Terminate") and rng.random() < 0.2 else "completed"
        out.append(
            Event(
                **common,
                started=started,
                ended=started + length,
                outcome=outcome,
                approved=approved,
                interruption={vm.name: _interruption(rng, kind, duration, length) for vm in affected}
                if kind in ("Freeze", "Reboot", "Redeploy")
                else {},
            )
        )
    return sorted(out, key=lambda e: e.first_seen)


def current(fleet: list[Vm], now: float, seed: int = 254) -> list[Event]:
    """Events at `now`: one started, some recently ended, the others scheduled for the next week."""
    rng = random.Random(seed)
    web, db, aks, spot = (_group(fleet, p) for p in ("vm-web", "vm-db", "aks-", "spot-"))

    def event(kind: str, affected: list[Vm], seen: float, begins: float | None, duration: int, **more) -> Event:
        more.setdefault("source", "Platform")
        more.setdefault("description", DESCRIPTIONS[kind] if more["source"] == "Platform" else "")
        return Event(
            event_id=_id(rng),
            event_type=kind,
            vms=tuple(affected),
            first_seen=now + seen,
            not_before=None if begins is None else now + begins,
            duration=duration,
            **more,
        )

    return [
        event("Reboot", db[1:2], -4 * MINUTE, 11 * MINUTE, 600),
        event("Freeze", web[0:3], -2 * MINUTE, 13 * MINUTE, 5),
        event("Terminate", spot[2:4], -3 * MINUTE, 9 * MINUTE + 30 + 6 * MINUTE, -1, source="User"),
        event("Freeze", aks[1:2], -17 * MINUTE, -2 * MINUTE, 9, started=now - 90, interruption={aks[1].name: 8.6}),
        event("SpotRebalanceRecommendation", spot[0:1], -40 * MINUTE, -30 * MINUTE, -1, is_advisory=True),
        event("Redeploy", db[3:4], -26 * HOUR, 1.9 * DAY, -1),
        event("Freeze", aks[3:6], -5 * HOUR, 3.2 * DAY, 9),
        event("Redeploy", web[4:5], -7 * HOUR, 5.4 * DAY, 1200),
        event(
            "Freeze",
            db[1:2],
            -24 * MINUTE,
            -8 * MINUTE,
            5,
            started=now - 8 * MINUTE + 4,
            ended=now - 4 * MINUTE,
            outcome="completed",
            approved=True,
            interruption={db[1].name: 7.2},
        ),
        event(
            "Reboot",
            db[1:2],
            -95 * MINUTE,
            -80 * MINUTE,
            600,
            started=now - 80 * MINUTE,
            ended=now - 71 * MINUTE,
            outcome="completed",
            interruption={db[1].name: 412.0},
        ),
        event("Reboot", db[1:2], -150 * MINUTE, -135 * MINUTE, -1, ended=now - 142 * MINUTE, outcome="cancelled"),
    ]
