"""What a real Alertmanager notifies with the files of alerts/: python3 tests/rules/pager.py ALERTMANAGER.

Each receiver of a configuration is a webhook on loopback here, and the waits are shorter.
"""

from __future__ import annotations

import sys
import time
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
        self.name, self.webhook = config.name, parts.Webhook()
        address = parts.alertmanager(stack, program, self.webhook, interval="2s", path=config)
        self.url = f"http://{address}/api/v2/alerts"

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

    def notifies(self, receiver: str, number: int = 1, **labels: str) -> None:
        """Waits until the receiver was notified of this number of alerts."""
        what = f"{self.name}: {labels} to {receiver}"
        try:
            parts.wait_for(what, lambda: len(self.of(receiver, **labels)) >= number, DEADLINE)
        except TimeoutError as error:
            failures.append(str(error))

    def expect(self, number: int, receiver: str, **labels: str) -> None:
        if (found := len(self.of(receiver, **labels))) != number:
            failures.append(f"{self.name}: {found} notifications of {labels} to {receiver}, not {number}")


def event(kind: str, severity: str, event_id: str, **labels: str) -> dict[str, str]:
    named = {"alertname": f"AzureScheduledEvent{kind}", "severity": severity, "event_id": event_id}
    return named | {"event_type": kind, "event_source": "Platform"} | labels


def many(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": f"AzureScheduledEvents{name}", "severity": "warning"} | labels


def down(host: str, **labels: str) -> dict[str, str]:
    return {"alertname": "InstanceDown", "severity": "critical", "host": host} | labels


def alerts_about_many_vms(manager: Alertmanager, name: str) -> None:
    """They reach the pager, and inhibit warnings of due events in their cluster, and no critical or other alert."""
    cluster = name.lower()
    manager.post(many(name, cluster=cluster, vm_scale_set="spot-batch"))
    manager.notifies("pager-and-chat", cluster=cluster)
    manager.post(
        event("Reboot", "critical", "R1", cluster=cluster),
        event("Freeze", "warning", "F1", cluster=cluster),
        event("Freeze", "warning", "F2", cluster=f"not-{cluster}"),
        *(event(kind, "warning", kind, cluster=cluster) for kind in NOT_DUE),
    )
    manager.notifies("pager-and-chat", event_id="R1", cluster=cluster)
    manager.notifies("chat", event_id="F2", cluster=f"not-{cluster}")
    for kind in NOT_DUE:
        manager.notifies("chat", event_id=kind, cluster=cluster)
    time.sleep(QUIET)
    manager.expect(0, "chat", event_id="F1", cluster=cluster)


def storm_of_evictions(manager: Alertmanager) -> None:
    """25 evictions of a scale set: one page, and a webhook for each to the automation."""
    evictions = [event("Preempt", "critical", f"P{number}", cluster="storm") for number in range(25)]
    manager.post(*evictions[:5])
    manager.post(*evictions[5:], many("ScaleSetEvicted", cluster="storm", vm_scale_set="spot"))
    manager.notifies("automation", 25, cluster="storm")
    manager.notifies("chat", event_id="P24")
    time.sleep(QUIET)
    manager.expect(1, "pager-and-chat", cluster="storm")
    manager.expect(25, "automation", cluster="storm")


def inhibition_of_down_alerts(manager: Alertmanager, receiver: str) -> None:
    """A VM's own down alerts are silent during its event, and notified when the inhibition ends."""
    progress = event("InProgress", "info", "E", cluster="c", host="a")
    manager.post(progress)
    manager.post(down("a", cluster="c"), down("b", cluster="c"), down("a", cluster="d"), down("", cluster="c"))
    manager.notifies(receiver, host="b")
    manager.notifies(receiver, host="a", cluster="d")
    time.sleep(QUIET)
    manager.expect(0, receiver, host="a", cluster="c")
    manager.expect(0, receiver, alertname="AzureScheduledEventInProgress")
    manager.post(progress, is_resolved=True)
    manager.notifies(receiver, host="a", cluster="c")


def stuck_reaches_the_pager(manager: Alertmanager) -> None:
    """A VM that does not come back is paged while its Reboot fires, and its warning adds nothing, but to another owner."""
    manager.post(event("Reboot", "critical", "S1"), event("Stuck", "warning", "S1"), event("Stuck", "critical", "S1"))
    manager.post(event("Stuck", "warning", "S1", owner="shop"))
    manager.notifies("chat", event_id="S1", owner="shop")
    stuck = {"alertname": "AzureScheduledEventStuck", "event_id": "S1"}
    manager.notifies("pager-and-chat", **stuck)
    time.sleep(QUIET)
    manager.expect(1, "chat", **stuck)


def minimal_configuration(manager: Alertmanager) -> None:
    manager.post(event("Reboot", "critical", "R1"), event("Freeze", "warning", "F1"))
    for event_id in ("R1", "F1"):
        manager.notifies("all", event_id=event_id)


def main() -> int:
    if "  repeat_interval: 96h\n" not in MINIMAL.read_text():
        failures.append("minimal: an event is notified again after some hours")
    with parts.Stack() as stack, ThreadPoolExecutor() as pool:
        example, small = (Alertmanager(stack, sys.argv[1], path) for path in (parts.EXAMPLE, MINIMAL))
        checks = [
            pool.submit(alerts_about_many_vms, example, "ScaleSetAtRisk"),
            pool.submit(alerts_about_many_vms, example, "FleetAtRisk"),
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
