"""The metrics and labels that a query may use: those in the exporter's catalogue and in the recording rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

import promql_parser as promql

from boards import ROOT

TARGET_LABELS = frozenset({"cluster", "job", "instance"})
EVENT_LABELS = ("event_id", "event_type", "event_source", "scope")


@dataclass(frozen=True)
class Metric:
    kind: str
    labels: frozenset[str]


def read() -> dict[str, Metric]:
    """The metrics in src/metrics/catalog.rs, the recorded metrics, and `up`, which Prometheus adds."""
    source = (ROOT / "src" / "metrics" / "catalog.rs").read_text(encoding="utf-8")
    rows = re.findall(
        r'^\s+[A-Z_]+ = "(\w+)", (\w+), "[^"]*", (event_labels!\([^)]*\)|&\[[^\]]*\]),', source, re.MULTILINE
    )
    if len(rows) < 30:
        raise SystemExit(f"src/metrics/catalog.rs: only {len(rows)} metrics found; its format may have changed")
    out = {"up": Metric("Gauge", TARGET_LABELS)}
    for name, kind, labels in rows:
        own = frozenset(re.findall(r'"(\w+)"', labels)) | (
            frozenset(EVENT_LABELS) if labels.startswith("event_labels") else frozenset()
        )
        if kind == "Histogram":
            out[f"{name}_bucket"] = Metric(kind, own | TARGET_LABELS | {"le"})
            out[f"{name}_count"] = out[f"{name}_sum"] = Metric(kind, own | TARGET_LABELS)
        else:
            out[name] = Metric(kind, own | TARGET_LABELS)
    return out | recorded()


def recorded() -> dict[str, Metric]:
    """The recording rules that dashboards may use, with the labels in each rule's `by (…)`."""
    event = ("cluster", "event_id", "event_type", "event_source")
    vm = ("cluster", "job", "instance")
    labels = {
        "instance:azure_scheduled_events_target:up": vm,
        "instance_event:azure_scheduled_event_alert:down": (*vm, *event),
        "event:azure_scheduled_event_open:last": ("cluster", "event_id"),
        "event:azure_scheduled_event_alert:last": (*event, "alert", "severity"),
        "scale_set:azure_scheduled_events_vm_info:count": ("cluster", "vm_scale_set"),
        "cluster:azure_scheduled_event_history:since": ("cluster",),
        "event:azure_scheduled_event_first_seen_timestamp_seconds:min": event,
        "event:azure_scheduled_event_notice_seconds:first": event,
        "event:azure_scheduled_event_duration_seconds:max": event,
        "event:azure_scheduled_event_ended_timestamp_seconds:max": (*event, "outcome"),
        "instance_event:azure_scheduled_event_observed_interruption_seconds:max": (
            *vm, "event_id", "event_type", "vm_name", "vm_scale_set",
        ),
        "job:azure_scheduled_events_approvals:increase15m": ("cluster", "job", "event_type", "result"),
    }  # fmt: skip
    rules = "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*/*.rules.yml")))
    if missing := [name for name in labels if f"- record: {name}\n" not in rules]:
        raise SystemExit(f"no rule records {', '.join(missing)}, which the dashboards may use")
    return {name: Metric("Gauge", frozenset(own)) for name, own in labels.items()}


class UnknownNameError(Exception):
    """A metric that is not in the catalogue, or a label that the operand does not have."""


def labels(node: promql.Expr, metrics: dict[str, Metric]) -> frozenset[str]:
    """The labels that the result may have. Raises UnknownNameError if the expression uses an unknown metric or label."""
    match node:
        case promql.VectorSelector():
            return _selector(node, metrics)
        case promql.MatrixSelector():
            return _selector(node.vector_selector, metrics)
        case promql.AggregateExpr():
            return _aggregate(node, metrics)
        case promql.BinaryExpr():
            return _binary(node, metrics)
        case promql.Call():
            return _call(node, metrics)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return labels(node.expr, metrics)
        case promql.NumberLiteral() | promql.StringLiteral():
            return frozenset()
    raise UnknownNameError(f"{type(node).__name__} is not supported by this check")


def _selector(node: promql.VectorSelector, metrics: dict[str, Metric]) -> frozenset[str]:
    names = [node.name] if node.name else [m.value for m in node.matchers.matchers if m.name == "__name__"]
    return frozenset().union(*(_metric(name, node, metrics) for each in names for name in each.split("|")))


def _metric(metric: str, node: promql.VectorSelector, metrics: dict[str, Metric]) -> frozenset[str]:
    if metric not in metrics:
        raise UnknownNameError(f"the exporter has no metric {metric}")
    have = metrics[metric].labels
    _within({m.name for m in node.matchers.matchers} - {"__name__"}, have, f"a matcher of {metric}")
    return have


def _aggregate(node: promql.AggregateExpr, metrics: dict[str, Metric]) -> frozenset[str]:
    have = labels(node.expr, metrics)
    made = frozenset({node.param.val}) if isinstance(node.param, promql.StringLiteral) else frozenset()
    selects = str(node.op) in ("topk", "bottomk")
    if node.modifier is None:
        return have if selects else made
    named = frozenset(node.modifier.labels)
    _within(named, have, f"{node.op} by or without")
    if selects:
        return have
    return (named if node.modifier.type == promql.AggModifierType.By else have - named) | made


def _binary(node: promql.BinaryExpr, metrics: dict[str, Metric]) -> frozenset[str]:
    left, right = labels(node.lhs, metrics), labels(node.rhs, metrics)
    modifier = node.modifier
    on = None
    if modifier is not None and modifier.matching is not None:
        on = frozenset(modifier.matching.labels)
        if modifier.matching.type == promql.LabelModifierType.Include:
            _within(on, left, f"on, left of {node.op}")
            _within(on, right, f"on, right of {node.op}")
    if str(node.op) == "or":
        return left | right
    if str(node.op) in ("and", "unless"):
        return left
    if modifier is not None and modifier.card in (
        promql.VectorMatchCardinality.ManyToOne,
        promql.VectorMatchCardinality.OneToMany,
    ):
        many, one = (left, right) if modifier.card == promql.VectorMatchCardinality.ManyToOne else (right, left)
        copied = frozenset(modifier.group_labels or ())
        _within(copied, one, "group_left or group_right")
        return many | copied
    return left | right if on is None else on


def _call(node: promql.Call, metrics: dict[str, Metric]) -> frozenset[str]:
    have = frozenset().union(*(labels(arg, metrics) for arg in node.args))
    if node.func.name == "label_join":
        _within({arg.val for arg in node.args[3:]}, have, "label_join")
        return have | {node.args[1].val}
    if node.func.name == "label_replace":
        _within({node.args[3].val} - {""}, have, "label_replace")
        return have | {node.args[1].val}
    if node.func.name == "histogram_quantile":
        return have - {"le"}
    return have


def _within(named: set[str] | frozenset[str], have: frozenset[str], place: str) -> None:
    if missing := sorted(set(named) - have):
        raise UnknownNameError(
            f"{place}: no label {', '.join(missing)}; available: {', '.join(sorted(have)) or 'none'}"
        )
