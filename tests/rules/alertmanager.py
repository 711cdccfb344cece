"""What an Alertmanager with alerts/alertmanager.example.yml notifies: routes, groups, inhibition and relabelling.

A model of Alertmanager in the time of the script, because a real one cannot be moved through a day. tests/e2e runs the
real one with the same file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from suite import END, EVALUATION, ROOT, Firing, duration

EXAMPLE = ROOT / "alerts" / "alertmanager.example.yml"
PAGING = ROOT / "docs" / "paging.md"
# Both replicas of Prometheus send each alert with this external label.
REPLICA = "replica"
TICK = 5


def matches(matchers: list[str], labels: dict[str, str]) -> bool:
    return all(_matches(matcher, labels) for matcher in matchers)


def _matches(matcher: str, labels: dict[str, str]) -> bool:
    name, operator, text = re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', matcher).groups()
    value = labels.get(name, "")
    found = value == text if operator in {"=", "!="} else re.fullmatch(text, value) is not None
    return found != operator.startswith("!")


def routes(route: dict, labels: dict[str, str], inherited: dict | None = None) -> list[dict]:
    options = (inherited or {}) | {name: value for name, value in route.items() if name not in {"routes", "continue"}}
    found = []
    for child in route.get("routes", []):
        if matches(child["matchers"], labels):
            found += routes(child, labels, options)
            if not child.get("continue"):
                break
    return found or [options]


@dataclass
class Alert:
    labels: dict[str, str]
    firing: Firing

    def is_known(self, at: int) -> bool:
        return self.firing.first <= at

    def is_resolved(self, at: int) -> bool:
        return at >= self.firing.last + EVALUATION and self.firing.last < END


@dataclass
class Notification:
    at: int
    receiver: str
    firing: list[Alert]
    resolved: list[Alert]
    group_labels: dict[str, str]


@dataclass
class Group:
    route: dict
    labels: dict[str, str]
    next_flush: int
    alerts: list[Alert] = field(default_factory=list)
    notified_firing: set[int] = field(default_factory=set)
    notified_resolved: set[int] = field(default_factory=set)


def relabelled(labels: dict[str, str]) -> dict[str, str]:
    """The labels after the alert_relabel_configs of docs/paging.md."""
    for block in re.findall(r"```yaml\n(.*?)```", PAGING.read_text(), re.DOTALL):
        for rule in (yaml.safe_load(block) or {}).get("alerting", {}).get("alert_relabel_configs", []):
            labels = _relabel(rule, labels)
    return labels


def _relabel(rule: dict, labels: dict[str, str]) -> dict[str, str]:
    if rule.get("action") == "labeldrop":
        return {name: value for name, value in labels.items() if not re.fullmatch(rule["regex"], name)}
    source = ";".join(labels.get(name, "") for name in rule["source_labels"])
    match = re.fullmatch(rule["regex"], source)
    if match is None:
        return labels
    value = match.expand(re.sub(r"\$(\d)", r"\\\1", rule["replacement"]))
    return {name: text for name, text in (labels | {rule["target_label"]: value}).items() if text}


def received(firings: list[Firing]) -> list[Alert]:
    """What two replicas of Prometheus send. Alerts with equal labels are one alert."""
    alerts = {}
    for firing in firings:
        for replica in ("a", "b"):
            labels = relabelled(firing.labels | {REPLICA: replica})
            alerts[firing.first, tuple(sorted(labels.items()))] = Alert(labels, firing)
    return list(alerts.values())


class Alertmanager:
    def __init__(self, firings: list[Firing], path: Path = EXAMPLE) -> None:
        self.config = yaml.safe_load(path.read_text())
        self.alerts = received(firings)
        self.groups: dict[tuple, Group] = {}
        self.notifications: list[Notification] = []

    def run(self) -> list[Notification]:
        waiting = sorted(self.alerts, key=lambda alert: alert.firing.first)
        for at in range(0, END + 1, TICK):
            while waiting and waiting[0].is_known(at):
                self._insert(waiting.pop(0), at)
            for key, group in list(self.groups.items()):
                if at >= group.next_flush:
                    self._flush(group, at)
                    if not group.alerts:
                        del self.groups[key]
        return self.notifications

    def _insert(self, alert: Alert, at: int) -> None:
        for route in routes(self.config["route"], alert.labels):
            labels = {name: alert.labels[name] for name in route["group_by"] if name in alert.labels}
            key = (str(route), str(labels))
            if key not in self.groups:
                self.groups[key] = Group(route, labels, at + duration(route["group_wait"]))
            self.groups[key].alerts.append(alert)

    def _flush(self, group: Group, at: int) -> None:
        group.next_flush = at + duration(group.route["group_interval"])
        audible = [alert for alert in group.alerts if not self._is_inhibited(alert, at)]
        resolved = [alert for alert in audible if alert.is_resolved(at)]
        firing = [alert for alert in audible if not alert.is_resolved(at)]
        group.alerts = [alert for alert in group.alerts if not alert.is_resolved(at)]
        firing_ids, resolved_ids = {id(alert) for alert in firing}, {id(alert) for alert in resolved}
        was_notified = bool(group.notified_firing)
        is_new = bool(firing_ids - group.notified_firing)
        is_end = bool(resolved_ids - group.notified_resolved) and was_notified
        if not is_new and not is_end:
            return
        group.notified_firing, group.notified_resolved = firing_ids, resolved_ids
        receiver = group.route["receiver"]
        self.notifications.append(Notification(at, receiver, firing, resolved, group.labels))

    def _is_inhibited(self, target: Alert, at: int) -> bool:
        for rule in self.config["inhibit_rules"]:
            if not matches(rule["target_matchers"], target.labels):
                continue
            is_source = matches(rule["source_matchers"], target.labels)
            for source in self.alerts:
                if (
                    source.is_known(at)
                    and not source.is_resolved(at)
                    and matches(rule["source_matchers"], source.labels)
                    and not (is_source and matches(rule["target_matchers"], source.labels))
                    and all(source.labels.get(name) == target.labels.get(name) for name in rule["equal"])
                ):
                    return True
        return False
