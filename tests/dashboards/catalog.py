"""The metrics and labels that a query may use: those in the exporter's catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from boards import ROOT

# Labels of targets, and those that a query makes for a table.
OTHER_LABELS = {"__name__", "cluster", "job", "instance", "le", "coverage"}


def names() -> tuple[set[str], set[str]]:
    """The metrics in src/outputs/metrics/catalog.rs, and all their labels."""
    source = (ROOT / "src" / "outputs" / "metrics" / "catalog.rs").read_text(encoding="utf-8")
    rows = re.findall(
        r'^\s+[A-Z_]+ = "(\w+)", (\w+), "[^"]*", (event_labels!\([^)]*\)|&\[[^\]]*\]),', source, re.MULTILINE
    )
    if len(rows) < 30:
        raise SystemExit(f"src/outputs/metrics/catalog.rs: only {len(rows)} metrics found; its format may have changed")
    suffixes = {"Histogram": ("_bucket", "_count", "_sum")}
    metrics = {name + suffix for name, kind, _ in rows for suffix in suffixes.get(kind, ("",))}
    labels = {label for _, _, own in rows for label in re.findall(r'"(\w+)"', own)}
    return metrics, labels | {"scope"} | OTHER_LABELS


METRICS, LABELS = names()


def unknown(expr: str) -> Iterator[str]:
    """Names in a query that no metric or label has."""
    bare = re.sub(r'"[^"]*"', '""', expr)
    for name in re.findall(r"[\w:]*azure_scheduled_event[\w:]*", bare):
        if name not in METRICS:
            yield f"no metric {name}"
    used = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*""', bare)
    for each in re.findall(r"\b(?:by|on|group_left|group_right) \(([^)]*)\)", bare):
        used += re.findall(r"\w+", each)
    for label in sorted(set(used) - LABELS):
        yield f"no label {label}"
