"""What a real Alertmanager notifies with the files of alerts/: python3 tests/rules/pager.py ALERTMANAGER.

Each receiver of a configuration is a webhook on loopback here, and the waits are shorter.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rulers"))

import parts

MINIMAL = parts.ALERTS / "alertmanager.minimal.yml"
DEADLINE = 30
# Longer than the waits of the groups: what has not been notified by then is inhibited.
QUIET = 4
# The page about many VMs does not name them.
NOT_DUE = ("UserInitiatedWaiting", "Stuck", "DegradedHardware", "Terminate", "UnknownType")

failures = []


class Alertmanager:
    def __init__(self, stack: parts.Stack, program: str, config: Path) -> None:
        self.webhook = parts.Webhook()
        self.url = (
            f"http://{parts.alertmanager(stack, program, self.webhook, interval='2s', path=config)}/api/v2/alerts"
        )

    def post(self, *alerts: dict[str, str], is_resolved: bool = False) -> None:
        # Alertmanager ignores an end that is not after the start.
        ends = {"startsAt": "2020-01-01T00:00:00Z", "endsAt": "2020-01-01T00:00:01Z"} if is_resolved else {}
        parts.request(self.url, [{"labels": labels, **ends} for labels in alerts])

    def of(self, receiver: str, **labels: str) -> set[int]:
        """The notifications to a receiver with a firing alert of these labels."""
        return {
            one.request
            for one in list(self.webhook.received)
            if (one.receiver, one.status) == (receiver, "firing") and labels.items() <= one.labels.items()
        }


def expect(condition: bool, what: str) -> None:
    if not condition:
        failures.append(what)


def expect_soon(condition: Callable[[], object], what: str) -> None:
    try:
        parts.wait_for(what, condition, DEADLINE)
    except TimeoutError:
        failures.append(what)


def event(kind: str, severity: str, event_id: str, **labels: str) -> dict[str, str]:
    named = {"alertname": f"AzureScheduledEvent{kind}", "severity": severity, "event_id": event_id}
    return named | {"event_type": kind, "event_source": "Platform"} | labels


def many(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": f"AzureScheduledEvents{name}", "severity": "warning"} | labels


def down(host: str, **labels: str) -> dict[str, str]:
    return {"alertname": "InstanceDown", "severity": "critical", "host": host} | labels


def critical_alerts_reach_the_pager(manager: Alertmanager, name: str) -> None:
    """The alerts about many VMs inhibit warnings of due events in their cluster, and no critical or other alert."""
    cluster = name.lower()
    manager.post(many(name, cluster=cluster, vm_scale_set="spot-batch"))
    expect_soon(lambda: manager.of("pager-and-chat", cluster=cluster), f"{name} does not reach the pager")
    manager.post(
        event("Reboot", "critical", "R1", cluster=cluster),
        event("Freeze", "warning", "F1", cluster=cluster),
        event("Freeze", "warning", "F2", cluster=f"not-{cluster}"),
        *(event(kind, "warning", kind, cluster=cluster) for kind in NOT_DUE),
    )
    expect_soon(lambda: manager.of("pager-and-chat", event_id="R1", cluster=cluster), f"{name} hides a Reboot")
    expect_soon(lambda: manager.of("chat", event_id="F2", cluster=f"not-{cluster}"), f"{name}: another cluster")
    for kind in NOT_DUE:
        expect_soon(lambda kind=kind: manager.of("chat", event_id=kind, cluster=cluster), f"{name} hides {kind}")
    time.sleep(QUIET)
    expect(not manager.of("chat", event_id="F1", cluster=cluster), f"{name} does not inhibit a warning")


def storm_of_evictions(manager: Alertmanager) -> None:
    """25 evictions of a scale set: one page, and a webhook for each to the automation."""
    evictions = [event("Preempt", "critical", f"P{number}", cluster="storm") for number in range(25)]
    manager.post(*evictions[:5])
    manager.post(*evictions[5:], many("ScaleSetEvicted", cluster="storm", vm_scale_set="spot"))
    expect_soon(lambda: len(manager.of("automation", cluster="storm")) == 25, "not one webhook for each eviction")
    time.sleep(QUIET)
    pages = manager.of("pager-and-chat", cluster="storm")
    expect(len(pages) == 1, f"{len(pages)} pages about 25 evictions")
    expect(len(manager.of("automation", cluster="storm")) == 25, "more than one webhook for an eviction")
    expect(bool(manager.of("chat", event_id="P24")), "no message about an eviction")


def inhibition_of_down_alerts(manager: Alertmanager, receiver: str) -> None:
    """A VM's own down alerts are silent during its event, and notified when the inhibition ends."""
    progress = event("InProgress", "info", "E", cluster="c", host="a")
    manager.post(progress)
    manager.post(down("a", cluster="c"), down("b", cluster="c"), down("a", cluster="d"), down("", cluster="c"))
    expect_soon(lambda: manager.of(receiver, host="b"), f"{receiver}: another VM is inhibited")
    expect_soon(lambda: manager.of(receiver, host="a", cluster="d"), f"{receiver}: another cluster is inhibited")
    time.sleep(QUIET)
    expect(not manager.of(receiver, host="a", cluster="c"), f"{receiver}: the down alert of the VM is not inhibited")
    expect(not [one for one in manager.webhook.received if "InProgress" in str(one)], "InProgress is notified")
    manager.post(progress, is_resolved=True)
    expect_soon(lambda: manager.of(receiver, host="a", cluster="c"), f"{receiver}: silent after the inhibition")


def stuck_reaches_the_pager(manager: Alertmanager) -> None:
    """A VM that does not come back is paged while its Reboot fires, and its warning adds nothing."""
    manager.post(event("Reboot", "critical", "S1"), event("Stuck", "warning", "S1"), event("Stuck", "critical", "S1"))
    stuck = "AzureScheduledEventStuck"
    expect_soon(lambda: manager.of("pager-and-chat", alertname=stuck), "Stuck does not reach the pager")
    time.sleep(QUIET)
    expect(
        not manager.of("chat", alertname=stuck, event_id="S1"),
        "the warning of Stuck is notified beside the critical one",
    )


def minimal_configuration(manager: Alertmanager) -> None:
    manager.post(event("Reboot", "critical", "R1"), event("Freeze", "warning", "F1"))
    for event_id in ("R1", "F1"):
        expect_soon(lambda event_id=event_id: manager.of("all", event_id=event_id), f"minimal: no {event_id}")


def main() -> int:
    expect("  repeat_interval: 96h\n" in MINIMAL.read_text(), "minimal: an event is notified again after some hours")
    with parts.Stack() as stack, ThreadPoolExecutor() as pool:
        example, small = (Alertmanager(stack, sys.argv[1], path) for path in (parts.EXAMPLE, MINIMAL))
        checks = [
            pool.submit(critical_alerts_reach_the_pager, example, "ScaleSetAtRisk"),
            pool.submit(critical_alerts_reach_the_pager, example, "FleetAtRisk"),
            pool.submit(storm_of_evictions, example),
            pool.submit(inhibition_of_down_alerts, example, "mail"),
            pool.submit(stuck_reaches_the_pager, example),
            pool.submit(inhibition_of_down_alerts, small, "all"),
            pool.submit(minimal_configuration, small),
        ]
        for check in checks:
            check.result()
    return parts.report("pager", failures)


if __name__ == "__main__":
    sys.exit(main())
