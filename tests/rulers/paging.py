"""One firing and one resolved notification for each event, in each pair of an old and a new Prometheus and Alertmanager.

    paging.py round    six event types, each of 1, 3 and 30 VMs, by the rules alone and by the rules with direct push
    paging.py seam     60 events by the rules with direct push, whose ends are at all phases of scrapes and evaluations
    paging.py minute   the events of one and of three VMs of `round`, evaluated once a minute, in the newest pair
    paging.py storm    a Freeze of 5 s of 100 VMs, 10 Reboots and 20 evictions at once, among 200 VMs, in the newest pair:
                       each Reboot reaches the pager, and nothing else does

Every event is in a cluster of its own: another simulator, other exporters, and the label `cluster`. The exporters serve
all four Prometheus servers, and push to all four Alertmanagers.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import parts
from parts import Azure, Stack, Webhook, built, debian, event, query, request, wait_for

# The last one is a type that the exporter does not know.
TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate", "Relocate")


@dataclass
class Case:
    name: str  # also the label `cluster` and the scale set
    script: dict[str, Any]
    vms: int
    is_pushing: bool
    delay: float  # seconds until the announcement
    addresses: list[str] = field(default_factory=list)
    azure: Azure | None = None
    event_id: str = ""


@dataclass
class Timing:
    """In seconds."""

    scrape: int
    evaluation: int
    group_interval: int
    # From the first announcement. An alert ends up to 150 s after its event, so that its text says how, and direct push
    # resolves it four minutes after the end: a second notification of the end would come until then.
    observe: float


class Pair:
    """A Prometheus, an Alertmanager, and what it notifies."""

    def __init__(self, stack: Stack, timing: Timing, prometheus: str, alertmanager: str) -> None:
        self.stack, self.timing, self.program, self.webhook = stack, timing, prometheus, Webhook()
        interval = f"{timing.group_interval}s"
        self.alertmanager = parts.alertmanager(stack, alertmanager, self.webhook, interval=interval)

    def scrape(self, targets: list[dict[str, Any]]) -> None:
        scrape, evaluation = f"{self.timing.scrape}s", f"{self.timing.evaluation}s"
        config = {
            "global": {"scrape_interval": scrape, "scrape_timeout": scrape, "evaluation_interval": evaluation},
            "rule_files": [f"{parts.rules(self.stack)}/*.rules.yml"],
            "alerting": parts.notifying(self.alertmanager),
        }
        _, self.prometheus, _ = parts.start_prometheus(self.stack, self.program, targets, **config)

    def wait_for_targets(self, count: int) -> None:
        ready = f"count(azure_scheduled_events_up == 1) == {count}"
        wait_for("all targets", lambda: query(self.prometheus, ready), limit=300)


def round_cases() -> Iterator[Case]:
    chance = random.Random(36)
    for kind in TYPES:
        for count in (1, 3, 30):
            for is_pushing in (False, True):
                name = f"{kind.lower()}-{count}-{'push' if is_pushing else 'rules'}"
                vms = [f"{name}_{number}" for number in range(count)]
                notice = "30s" if kind == "Preempt" else "90s"
                yield Case(name, event(kind, notice, "60s", *vms), count, is_pushing, chance.uniform(0, 30))


def seam_cases() -> Iterator[Case]:
    chance = random.Random(60)
    for number in range(60):
        kind = TYPES[number % 5]
        name = f"seam-{number}"
        started_for = f"{chance.uniform(15, 30):.1f}"
        script = event(kind, "20s", f"{float(started_for) * 1000:.0f}ms", f"{name}_0")
        yield Case(name, script, 1, True, chance.uniform(0, 20))


def start_case(stack: Stack, case: Case, pairs: Collection[Pair]) -> None:
    case.azure = Azure(stack, f"{case.name}_0")
    flags = ["--imds.poll-interval=5s"]
    if case.is_pushing:
        flags += [f"--alertmanager.url=http://{pair.alertmanager}" for pair in pairs]
        flags.append(f"--alertmanager.external-label=cluster={case.name}")
    for number in range(case.vms):
        case.addresses.append(case.azure.exporter(f"{case.name}_{number}", *flags)[1])


def play(case: Case, began: float) -> None:
    time.sleep(max(0.0, began + case.delay - time.monotonic()))
    [case.event_id] = case.azure.play(case.script).values()


def run(stack: Stack, cases: list[Case], timing: Timing, pairs_used: slice) -> list[str]:
    prometheus = {"2.42": debian("prometheus"), "3.15": built("prometheus3")}
    managers = {"0.25": debian("prometheus-alertmanager"), "0.34": built("alertmanager")}
    pairs = {
        f"prometheus-{version}-alertmanager-{other}": Pair(stack, timing, prometheus[version], managers[other])
        for version, other in list(itertools.product(prometheus, managers))[pairs_used]
    }
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda case: start_case(stack, case, pairs.values()), cases))
    total = sum(case.vms for case in cases)
    for pair in pairs.values():
        pair.scrape([{"targets": case.addresses, "labels": {"cluster": case.name}} for case in cases])
    for pair in pairs.values():
        pair.wait_for_targets(total)
    time.sleep(3 * timing.evaluation)
    began = time.monotonic()
    print(f"{len(cases)} events, {total} exporters, load {os.getloadavg()[0]:.1f}", flush=True)
    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(lambda case: play(case, began), cases))
    time.sleep(max(0.0, began + timing.observe - time.monotonic()))
    wrong = []
    for name, pair in pairs.items():
        failed = {case.name: why for case in cases if (why := pair.webhook.not_once(case.event_id))}
        print(f"{name}: {len(cases) - len(failed)} of {len(cases)}", flush=True)
        wrong += [f"{name}: {case}: {' and '.join(why)}" for case, why in sorted(failed.items())]
        groups = json.loads(request(f"http://{pair.prometheus}/api/v1/rules"))["data"]["groups"]
        wrong += [f"{name}: {one}" for one in parts.rule_errors(groups)]
        if (slow := max(group["evaluationTime"] for group in groups)) > timing.evaluation:
            wrong.append(f"{name}: a group took {slow:.1f} s, longer than the interval")
    return wrong


def storm(stack: Stack) -> list[str]:
    sizes = {"web": 100, "db": 40, "spot": 60}
    sets = {name: Azure(stack, f"{name}_999") for name in sizes}  # Events of the VM in the metadata count for all
    vms = [(sets[name], f"{name}_{number}") for name, size in sizes.items() for number in range(size)]
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda vm: vm[0].exporter(vm[1], "--imds.poll-interval=5s"), vms))
    pair = Pair(stack, Timing(15, 15, 20, 150.0), built("prometheus3"), built("alertmanager"))
    pair.scrape([{"targets": [address for _, address in started], "labels": {"cluster": "storm"}}])
    pair.wait_for_targets(len(vms))
    time.sleep(3 * pair.timing.evaluation)
    freeze = event("Freeze", "60s", "5s", *(f"web_{number}" for number in range(100)), duration_seconds=5)
    sets["web"].play(freeze)
    sets["db"].play(*(event("Reboot", "60s", "10s", f"db_{number}") for number in range(10)))
    sets["spot"].play(*(event("Preempt", "30s", "5s", f"spot_{number}") for number in range(20)))
    time.sleep(pair.timing.observe)
    firing = [
        (one.receiver, one.labels.get("event_type"), one.event)
        for one in pair.webhook.received
        if one.status == "firing" and one.receiver in {"pager-and-chat", "automation"}
    ]
    once = {("pager-and-chat", "Reboot"): 10, ("automation", "Reboot"): 10, ("automation", "Preempt"): 20}
    wrong = [
        f"{what} to the pager and the automation: {dict(counts)}, expected {once}"
        for what, found in (("notifications", firing), ("events", set(firing)))
        if (counts := Counter(one[:2] for one in found)) != once
    ]
    if wrong:
        pair.webhook.print()
    return wrong


def main() -> int:
    kind = sys.argv[1] if len(sys.argv) == 2 else ""
    every, newest = slice(None), slice(-1, None)
    kinds = {
        "round": (list(round_cases()), Timing(15, 15, 45, 500.0), every),
        "seam": (list(seam_cases()), Timing(5, 5, 20, 390.0), every),
        "minute": ([case for case in round_cases() if case.vms <= 3], Timing(15, 60, 90, 660.0), newest),
    }
    with Stack() as stack:
        if kind == "storm":
            return parts.report(kind, storm(stack))
        if kind not in kinds:
            raise SystemExit("usage: paging.py round | seam | minute | storm")
        random.Random(1).shuffle(kinds[kind][0])
        return parts.report(kind, run(stack, *kinds[kind]))


if __name__ == "__main__":
    sys.exit(main())
