"""PromQL that several dashboards share."""

from __future__ import annotations

TARGET = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'


def exporter(metric: str, more: str = "", of: str = TARGET) -> str:
    """A metric about the exporter or its VM."""
    return f"azure_scheduled_events_{metric}{{{of}{', ' + more if more else ''}}}"


def traced(expr: str) -> str:
    """Adds the trace ID, which is the event ID without hyphens."""
    parts = "-".join(["([0-9A-Fa-f]+)"] * 5)
    return f'label_replace({expr}, "trace_id", "$1$2$3$4$5", "event_id", "{parts}")'


def short_id(expr: str) -> str:
    """Adds the first part of the event ID, for narrow columns."""
    return f'label_replace({expr}, "id", "$1", "event_id", "([^-]+).*")'


def type_table(values: dict[str, float], label: str = "event_type") -> str:
    """One constant per event type, as a vector for joins."""
    return " or ".join(f'label_replace(vector({value}), "{label}", "{name}", "", "")' for name, value in values.items())
