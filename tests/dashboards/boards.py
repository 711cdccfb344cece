"""Reads the dashboards: panels, queries, and the interpolation that Grafana applies before it sends a query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SCRAPE_INTERVAL = 15
# For `rule_files` of Prometheus.
RULE_FILES = json.dumps([str(ROOT / folder / "*.rules.yml") for folder in ("alerts", "dashboards")])


@dataclass(frozen=True)
class Query:
    board: str
    panel: str
    ref: str
    expr: str
    instant: bool
    interval: str
    points: int
    ahead: int  # length in seconds of a panel's own range in the future, 0 for the dashboard's range

    @property
    def where(self) -> str:
        return f"{self.board}: {self.panel}: {self.ref}"


def load() -> dict[str, dict[str, Any]]:
    """All dashboards, by file name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "dashboards").glob("azse-*.json"))
    }


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def queries(name: str, board: dict[str, Any]) -> Iterator[Query]:
    for panel in panels(board):
        for target in panel.get("targets", []):
            ahead = seconds(panel["timeFrom"].removeprefix("+")) if panel.get("timeFrom", "").startswith("+") else 0
            yield Query(
                name,
                panel["title"],
                target["refId"],
                target["expr"],
                bool(target["instant"]),
                target.get("interval", ""),
                panel.get("maxDataPoints", 900),
                ahead,
            )
    for note in board["annotations"]["list"]:
        if "target" in note:
            of = note["target"]
            yield Query(
                name, f"annotation {note['name']}", of["refId"], of["expr"], of["instant"], of["interval"], 1500, 0
            )


def variable_query(variable: dict[str, Any]) -> str:
    """The PromQL of a query variable."""
    found = re.fullmatch(r"label_values\((.*), \w+\)|query_result\((.*)\)", variable["definition"])
    if not found or variable["query"]["query"] != variable["definition"]:
        raise ValueError(f"variable {variable['name']}: {variable['definition']}")
    return found.group(1) or found.group(2)


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([smhdw])", text).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]


def step(query: Query, span: int, scrape: int) -> int:
    """Grafana's step: the range divided by the maximum number of points, at least the query's or the scrape interval."""
    minimum = seconds(query.interval) if query.interval else scrape
    return max(minimum, -(-span // query.points), 1)


def interpolate(
    expr: str, variables: dict[str, str], span: int, step_seconds: int, scrape: int = SCRAPE_INTERVAL
) -> str:
    """Replaces variables by values, as Grafana does for `=~`."""
    values = {
        "tempo": "Tempo",
        "jaeger": "Jaeger",
        "__range": f"{span}s",
        "__range_s": str(span),
        "__interval": f"{step_seconds}s",
        "__rate_interval": f"{max(step_seconds + scrape, 4 * scrape)}s",
        **variables,
    }

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            raise KeyError(f"${name} is not a variable of this dashboard")
        return values[name]

    return re.sub(r"\$\{?([A-Za-z_]\w*)(?::text\})?", value, expr)


def variables(board: dict[str, Any], chosen: dict[str, str] | None = None) -> dict[str, str]:
    """The value of every variable: the one in `chosen`, or the value for All, or its default."""
    return {
        v["name"]: v.get("allValue", ".*") if v["includeAll"] or v["type"] == "query" else v["current"]["value"]
        for v in board["templating"]["list"]
        if v["type"] in ("query", "custom")
    } | (chosen or {})
